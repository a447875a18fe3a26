// Package clustertest starts real PostgreSQL servers for a test and ends them with
// it. When the test fails, the tails of their logs are in its output.
//
// Two environment variables are read, here and nowhere deeper:
// SLOTFERRY_PG_BINDIRS, a colon-separated list of bin directories, and
// SLOTFERRY_TEST_MAJORS, a comma-separated list of the majors to test, for those
// who ask for fewer than all. A major that is to be tested and cannot be had is a
// failure, never a skip.
package clustertest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
)

// supported are the majors that decode on a standby.
var supported = []int{16, 17, 18}

// logLines is how much of a server's log a failed test shows.
const logLines = 60

// Majors returns the major versions to test.
func Majors(t testing.TB) []int {
	t.Helper()
	list := os.Getenv("SLOTFERRY_TEST_MAJORS")
	if list == "" {
		return supported
	}
	var majors []int
	for field := range strings.SplitSeq(list, ",") {
		major, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			t.Fatalf("read SLOTFERRY_TEST_MAJORS %q: want a list such as 16,18", list)
		}
		majors = append(majors, major)
	}
	return majors
}

// EachMajor runs a subtest for each major version to test.
func EachMajor(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	for _, major := range Majors(t) {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) { test(t, major) })
	}
}

// EachMajorParallel is EachMajor with the subtests side by side, for tests that
// mostly wait for servers. It returns before they have ended: it must be the last
// thing its caller does.
func EachMajorParallel(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	EachMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		test(t, major)
	})
}

// NewestMajor runs a subtest for the newest major version to test, for what is
// slotferry's own and the same behind every server.
func NewestMajor(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	major := slices.Max(Majors(t))
	t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) { test(t, major) })
}

// Bin returns the server programs of a major version.
func Bin(t testing.TB, major int) pgbin.Installation {
	t.Helper()
	bin, err := pgbin.Find(t.Context(), major, pgbin.Config{BinDirs: os.Getenv("SLOTFERRY_PG_BINDIRS")})
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Primary starts a primary that ends with the test. cfg.Bin is found by major
// unless it is set.
func Primary(t testing.TB, major int, cfg cluster.Config) *cluster.Server {
	t.Helper()
	if cfg.Bin.BinDir == "" {
		cfg.Bin = Bin(t, major)
	}
	s, err := cluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

// Standby makes a standby that ends with the test.
func Standby(t testing.TB, upstream *cluster.Server, cfg cluster.StandbyConfig) *cluster.Server {
	t.Helper()
	s, err := upstream.Standby(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

func closeAfter(t testing.TB, s *cluster.Server) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of server %q (PostgreSQL %s):\n%s", s.Name(), s.Bin().Version, s.LogTail(logLines))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Exec runs statements, and ends the test if one fails.
func Exec(t testing.TB, s *cluster.Server, dbname string, statements ...string) {
	t.Helper()
	if err := s.Exec(t.Context(), dbname, statements...); err != nil {
		t.Fatal(err)
	}
}

// Value returns the value that a query gives, and ends the test if it fails.
func Value[T any](t testing.TB, s *cluster.Server, dbname, sql string, args ...any) T {
	t.Helper()
	v, err := cluster.QueryValue[T](t.Context(), s, dbname, sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
