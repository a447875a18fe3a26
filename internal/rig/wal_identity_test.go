package rig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
)

// walAmount is how much WAL the identity test writes. SLOTFERRY_TEST_WAL_MIB
// asks for another amount: "make test-wal" for 2 GiB.
func walAmount(t *testing.T) protocol.LSN {
	t.Helper()
	text := os.Getenv("SLOTFERRY_TEST_WAL_MIB")
	if text == "" {
		return 128 << 20
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < 64 {
		t.Fatalf("read SLOTFERRY_TEST_WAL_MIB %q: want a number of at least 64", text)
	}
	return protocol.LSN(n << 20)
}

var (
	segmentName = regexp.MustCompile(`^[0-9A-F]{24}$`)
	unclean     = regexp.MustCompile(`(?m)^.*(ERROR|FATAL|PANIC|WARNING|invalid|incorrect).*$`)
)

// Whatever goes through relay and helper, with slot messages in the stream all
// the time, is on the standby's disk as it is on the primary's: segment for
// segment (I-13). pg_receivewal gets the same from both ends of the chain.
func TestWALOnDiskIsThePrimarys(t *testing.T) {
	amount := walAmount(t)
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		keep := fmt.Sprintf("%dMB", 2*amount>>20)
		p := newTestPairOf(t, major, Config{
			Mode:       Inline,
			Flags:      []string{"--advance-interval", "200ms"},
			RelayFlags: []string{"--poll-interval", "10ms", "--interval", "100ms"},
			Settings: map[string]string{
				"wal_keep_size": keep, "max_wal_size": keep, "checkpoint_timeout": "1h", "shared_buffers": "128MB",
				"autovacuum": "off", "synchronous_commit": "off",
			},
		})
		p.waitAnchor(p.B)
		slots := []string{"m0", "m1", "m2", "m3"}
		for _, slot := range slots {
			p.createSlot(p.A, slot)
			p.waitReady(p.B, slot)
		}
		first := lsnOf(t, p.A, "SELECT pg_switch_wal()::text")
		for _, receiver := range []string{"direct", "through"} {
			if err := p.A.Server.CreatePhysicalSlot(t.Context(), receiver); err != nil {
				t.Fatal(err)
			}
		}
		through := p.receiveWAL("through", p.B.listen)
		direct := p.receiveWAL("direct", p.A.Server.Addr())

		began := time.Now()
		mover := p.moveSlots(slots)
		wrote := p.mixedTraffic(first + amount)
		moves := mover()
		last := lsnOf(t, p.A, "SELECT pg_switch_wal()::text")
		p.insert(p.A, 1, 10)
		if err := p.A.Server.WaitForStandby(t.Context(), p.B.Server); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d MiB of WAL (%s) in %s, slots moved %d times, %d slot messages stripped", (last-first)>>20, wrote,
			time.Since(began).Round(time.Second), moves, p.stripped())

		began = time.Now()
		end := clustertest.Value[string](t, p.A.Server, "postgres", "SELECT pg_walfile_name($1::text::pg_lsn - 1)", last.String())
		want := segments(t, filepath.Join(p.A.Server.DataDir(), "pg_wal"), end)
		compareSegments(t, "the standby", segments(t, filepath.Join(p.B.Server.DataDir(), "pg_wal"), end), want, amount)
		compareSegments(t, "pg_receivewal of the primary", segments(t, direct(end), end), want, amount)
		compareSegments(t, "pg_receivewal through relay and helper", segments(t, through(end), end), want, amount)
		checkArchiveStatus(t, p.B.Server, end)
		if lines := unclean.FindAllString(p.B.Server.Log(), -1); len(lines) > 0 {
			t.Errorf("log of the standby: %q", lines)
		}
		if n := p.stripped(); n < 50 {
			t.Errorf("only %d slot messages were in the stream", n)
		}
		t.Logf("compared in %s", time.Since(began).Round(100*time.Millisecond))
		for _, slot := range slots {
			p.waitReady(p.B, slot)
		}
	})
}

// segments returns the digests of the segments in a directory up to the last
// one, and fails for a segment 0: what a slot message in a walreceiver leaves.
func segments(t *testing.T, dir, last string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name[min(8, len(name)):], "0000000000000000") {
			t.Errorf("%s is in %s", name, dir)
		}
		if !segmentName.MatchString(name) || name > last {
			continue
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.New()
		_, err = io.Copy(digest, f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = fmt.Sprintf("%x", digest.Sum(nil))
	}
	return digests
}

// compareSegments compares all segments that got has; they must be as many as
// the traffic has filled.
func compareSegments(t *testing.T, who string, got, want map[string]string, amount protocol.LSN) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			t.Errorf("segment %s of %s is %q, the primary's is %q", name, who, got[name], want[name])
		}
	}
	if min := int(amount / (16 << 20)); len(got) < min {
		t.Errorf("%s has %d segments, want at least %d", who, len(got), min)
	}
}

// checkArchiveStatus allows what a walreceiver leaves: one .done for each segment
// that it has received whole.
func checkArchiveStatus(t *testing.T, s *cluster.Server, last string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.DataDir(), "pg_wal", "archive_status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		segment, done := strings.CutSuffix(e.Name(), ".done")
		if !done || !segmentName.MatchString(segment) || segment > last {
			t.Errorf("archive_status has %s, the last whole segment is %s", e.Name(), last)
		}
	}
}

// receiveWAL starts pg_receivewal. The function it returns ends it when it has
// the segment, and returns its directory.
func (p *testPair) receiveWAL(slot, addr string) func(last string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	_, port, _ := strings.Cut(addr, ":")
	ctx, cancel := context.WithCancel(p.t.Context())
	cmd := clustertest.Command(ctx, p.t, p.A.Server, "pg_receivewal", "--directory", dir, "--slot", slot, "--no-loop", "--no-sync",
		"--dbname", fmt.Sprintf("host=127.0.0.1 port=%s user=postgres sslmode=disable gssencmode=disable", port))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func(last string) string {
		p.t.Helper()
		defer cancel()
		p.until("pg_receivewal "+slot+" to have "+last, func(context.Context) (bool, string) {
			select {
			case err := <-ended:
				p.t.Fatalf("pg_receivewal %s: %v\n%s", slot, err, &stderr)
			default:
			}
			_, err := os.Stat(filepath.Join(dir, last))
			return err == nil, fmt.Sprint(err)
		})
		cancel()
		<-ended
		return dir
	}
}
