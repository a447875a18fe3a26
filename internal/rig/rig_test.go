package rig

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// waitTime is how long a test waits for what should take a second or two on a
// machine with nothing else to do.
const waitTime = 45 * time.Second

// binary is built once, with the race detector, for all tests of this package.
var binary struct {
	sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.path != "" {
		_ = os.RemoveAll(strings.TrimSuffix(binary.path, "/slotferry"))
	}
	os.Exit(code)
}

func build(t *testing.T) string {
	t.Helper()
	binary.Do(func() {
		dir, err := os.MkdirTemp("", "slotferry-bin-")
		if err == nil {
			binary.path, err = Build(context.Background(), dir, true)
		}
		binary.err = err
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

// each runs a test on every major, with the helper inline and as a sidecar.
func each(t *testing.T, test func(t *testing.T, p *testPair)) {
	t.Helper()
	for _, mode := range []Mode{Inline, Sidecar} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			clustertest.EachMajorParallel(t, func(t *testing.T, major int) { test(t, newTestPair(t, major, mode)) })
		})
	}
}

// testPair is a Pair that ends with its test.
type testPair struct {
	*Pair
	t *testing.T
}

// serverConninfo is where a node's server is reached.
func (p *Pair) serverConninfo(n *Node) string { return serverConninfo(p.ports[n.Name]) }

func newTestPair(t *testing.T, major int, mode Mode) *testPair {
	t.Helper()
	return newTestPairOf(t, major, Config{Mode: mode, Flags: []string{"--advance-interval", "1s"}})
}

// newTestPairOf fills in what all tests have in common.
func newTestPairOf(t *testing.T, major int, cfg Config) *testPair {
	t.Helper()
	cfg.Bin = clustertest.Bin(t, major)
	if cfg.Binary == "" {
		cfg.Binary, cfg.Dir = build(t), t.TempDir()
	}
	p, err := NewPair(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Logs())
			for _, n := range []*Node{p.A, p.B} {
				t.Logf("---- server %s\n%s", n.Name, n.Server.LogTail(60))
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	clustertest.Exec(t, p.A.Server, "postgres", "CREATE TABLE t (i bigint PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR ALL TABLES")
	return &testPair{Pair: p, t: t}
}

func (p *testPair) waitAnchor(n *Node) {
	p.t.Helper()
	poll.Require(p.t, waitTime, "a protected anchor on "+n.Name, func(ctx context.Context) (bool, string) {
		st, err := n.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		return st.Anchor.Proven, fmt.Sprintf("%+v; %s %s", st.Anchor, st.Reason, st.Detail)
	})
}

func (p *testPair) waitReady(n *Node, slot string) {
	p.t.Helper()
	if err := n.WaitReady(p.t.Context(), waitTime, slot); err != nil {
		p.t.Fatal(err)
	}
}

func (p *testPair) waitSlot(n *Node, slot string, state decoder.State, reason decoder.Reason) decoder.SlotStatusJSON {
	p.t.Helper()
	s, err := n.WaitSlot(p.t.Context(), waitTime, slot, state, reason)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *testPair) createSlot(n *Node, slot string) {
	p.t.Helper()
	clustertest.Exec(p.t, n.Server, "postgres", fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
}

func (p *testPair) insert(n *Node, from, to int) {
	p.t.Helper()
	clustertest.Exec(p.t, n.Server, "postgres", fmt.Sprintf("INSERT INTO t SELECT g, 'row' FROM generate_series(%d, %d) g", from, to))
}

// rows consumes a test_decoding slot and returns the rows that were inserted.
func (p *testPair) rows(n *Node, slot string) map[int]int {
	p.t.Helper()
	lines, err := cluster.QueryColumn[string](p.t.Context(), n.Server, "postgres", fmt.Sprintf(
		"SELECT data FROM pg_logical_slot_get_changes('%s', NULL, NULL) WHERE data LIKE 'table public.t: INSERT%%'", slot))
	if err != nil {
		p.t.Fatal(err)
	}
	rows := map[int]int{}
	for _, line := range lines {
		var i int
		if _, err := fmt.Sscanf(line, "table public.t: INSERT: i[bigint]:%d", &i); err != nil {
			p.t.Fatalf("row %q: %v", line, err)
		}
		rows[i]++
	}
	return rows
}

func wantRows(t *testing.T, got map[int]int, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if got[i] == 0 {
			t.Errorf("row %d is lost", i)
		}
	}
}

func exists(t *testing.T, n *Node, slot string) bool {
	t.Helper()
	return clustertest.Value[int64](t, n.Server, "postgres",
		"SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1", slot) > 0
}

func lsnOf(t *testing.T, n *Node, sql string, args ...any) protocol.LSN {
	t.Helper()
	lsn, err := protocol.ParseLSN(clustertest.Value[string](t, n.Server, "postgres", sql, args...))
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

func confirmed(t *testing.T, n *Node, slot string) protocol.LSN {
	t.Helper()
	return lsnOf(t, n, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", slot)
}

// catchUp waits until the standby has everything and its helper knows where the
// subscriber of a slot is.
func (p *testPair) catchUp(primary, standby *Node, slots ...string) {
	p.t.Helper()
	if err := primary.Server.WaitForStandby(p.t.Context(), standby.Server); err != nil {
		p.t.Fatal(err)
	}
	for _, slot := range slots {
		want := confirmed(p.t, primary, slot)
		poll.Require(p.t, waitTime, "the position of "+slot+" to be known", func(ctx context.Context) (bool, string) {
			st, err := standby.Status(ctx)
			if err != nil {
				return false, err.Error()
			}
			for _, s := range st.Slots {
				if s.Name == slot {
					return s.Upstream >= want, fmt.Sprintf("%v, want %v", s.Upstream, want)
				}
			}
			return false, "no such slot"
		})
	}
}

func (p *testPair) promote(n *Node) *decoder.PromotionReport {
	p.t.Helper()
	if err := n.Server.Promote(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return p.report(n)
}

// report waits until a helper has finished with a promotion.
func (p *testPair) report(n *Node) *decoder.PromotionReport {
	p.t.Helper()
	var report *decoder.PromotionReport
	poll.Require(p.t, waitTime, "the promotion report of "+n.Name, func(ctx context.Context) (bool, string) {
		st, err := n.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		report = st.Promotion
		return report != nil && st.Role == decoder.RolePrimary, fmt.Sprintf("%s %s", st.Role, st.Reason)
	})
	return report
}
