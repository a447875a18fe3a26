package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/rig"
)

// Seeds of the rounds of every test run. Their schedules try all three majors and
// modes.
const (
	firstSeed = 3
	seeds     = 5
)

// built are binaries of slotferry, each built once, by what is different in it.
var built struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// build returns the binary named what. texts are files of this module, by their
// path in it, that are compiled from other text.
func build(t *testing.T, what string, texts map[string]string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path, done := built.paths[what]; done {
		return path
	}
	path, err := buildInto(t.Context(), what, texts)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func buildInto(ctx context.Context, what string, texts map[string]string) (string, error) {
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "slotferry-chaos-bin-")
		if err != nil {
			return "", err
		}
		built.dir, built.paths = dir, map[string]string{}
	}
	dir := filepath.Join(built.dir, what)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	var flags []string
	if len(texts) > 0 {
		var err error
		if flags, err = Overlay(dir, texts); err != nil {
			return "", err
		}
	}
	path, err := rig.Build(ctx, dir, true, flags...)
	if err == nil {
		built.paths[what] = path
	}
	return path, err
}

// roundConfig is a round's for a test: what it says stands in the test's log, and
// its files stay when the test has failed.
func roundConfig(t *testing.T, major int, binary string) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "slotferry-round-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // servers run as another user when this is root
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and data directories: %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return Config{Bin: clustertest.Bin(t, major), Binary: binary, Dir: dir, Say: t.Logf}
}

// Some rounds of chaos: nothing is lost, nothing is invented, nothing gets stuck.
func TestRounds(t *testing.T) {
	disk := CanMount()
	if disk != nil {
		t.Logf("NO FULL DISKS in these rounds: %v", disk)
	}
	limits := Limits{Majors: clustertest.Majors(t), Short: true}
	for seed := range uint64(seeds) {
		s := NewSchedule(firstSeed+seed, limits)
		t.Run(fmt.Sprintf("seed%d", s.Seed), func(t *testing.T) {
			t.Parallel()
			cfg := roundConfig(t, s.Major, build(t, "slotferry", nil))
			cfg.Disk = disk == nil
			v, err := Run(t.Context(), s, cfg)
			t.Logf("again: make chaos ROUNDS=1 SHORT=1 SEED=%d\n%s%s", s.Seed, s.String(), v.String())
			if err != nil {
				t.Fatal(err)
			}
			if !v.Good() {
				t.Error("the round is bad")
			}
			if v.Transactions < 10 || v.Moved == 0 && len(v.Told) == 0 {
				t.Error("the round has shown nothing")
			}
		})
	}
}
