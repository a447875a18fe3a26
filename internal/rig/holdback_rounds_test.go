package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
)

// holdBackRounds is how often a primary is killed on each major.
func holdBackRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SLOTFERRY_TEST_HOLDBACK_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SLOTFERRY_TEST_HOLDBACK_ROUNDS: %v", err)
	}
	return n
}

// kill -9 of the primary at a random moment under load, with the standby's network
// failing and coming back at random: behind hold-back the subscriber has, after the
// failover, exactly the rows of the new primary. Two of three primaries die while
// the network is gone; without hold-back the subscriber would be ahead there. In
// three of four rounds the subscriber adds a table that is written to, and most of
// those primaries die during its initial copy.
func TestFailoversLeaveSubscribersWithTheStandbysRows(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		for round := range holdBackRounds(t) {
			seed := uint64(time.Now().UnixNano())
			t.Run(strconv.Itoa(round), func(t *testing.T) {
				t.Logf("seed %d", seed)
				holdBackRound(t, major, rand.New(rand.NewPCG(seed, 1)))
			})
		}
	})
}

func holdBackRound(t *testing.T, major int, rng *rand.Rand) {
	p := newHoldBackPair(t, major, "--hold-back", "ANY 1 (b)")
	p.set(p.A.Server, "logical_decoding_work_mem", "64kB")
	p.set(p.subscriber, "wal_retrieve_retry_interval", "500ms")
	p.addTable("c", rowsBefore)
	adds := copyMoment(rng.IntN(int(copyMoments)))
	clustertest.Exec(t, p.subscriber, "postgres", "ALTER SUBSCRIPTION sub SET (streaming = on)")
	w := startRowWriter(p.A.Server, rng.Uint64())
	defer w.stop()
	for i := range 1 + rng.IntN(4) {
		w.waitCommits(t, 1+rng.Int64N(30))
		p.network.Stall(faultproxy.Down)
		w.waitCommits(t, 1+rng.Int64N(30))
		if adds == copyWhileStalled && i == 0 {
			p.addToSubscription()
			w.waitCommits(t, 1+rng.Int64N(30))
		}
		p.network.Resume(faultproxy.Down)
	}
	w.waitCommits(t, 1+rng.Int64N(30))
	if adds == copyBeforeTheEnd {
		p.addToSubscription()
		p.copyBegins("c")
		w.waitCommits(t, 1+rng.Int64N(9))
	}
	if adds == copyAtTheEnd {
		p.addToSubscription()
	}
	if adds == copyAtTheEnd || rng.IntN(3) > 0 {
		p.network.Stall(faultproxy.Down) // and it dies in that state
		if adds == copyAtTheEnd {
			p.copyBegins("c")
		}
		w.waitCommits(t, 1+rng.Int64N(60))
	}
	before := p.copyState("c")
	p.failover()
	w.stop()
	again := adds != copyNever && p.endCopy("c")
	const last = 1 << 40 // past all that the writer wrote
	p.fill(p.B, "c", last, last)
	p.insert(p.B, last, last)
	lost, extra := p.waitSame(p.B, last)
	if len(lost)+len(extra) > 0 {
		t.Errorf("lost %v, extra %v", lost, extra)
	}
	if p.copyState("c") != "-" {
		p.waitRow("c", last)
		if lost, extra := p.compareTable(p.B, "c"); len(lost)+len(extra) > 0 {
			t.Errorf("the table that was added: lost %v, extra %v", lost, extra)
		}
	}
	t.Logf("%d commits on the old primary, %d rows on the new one; table added: %v, state %s when the primary died, copied again: %v",
		w.commits.Load(), count(t, p.B.Server, "t"), adds, before, again)
}

// rowsBefore are in the table that is added, before its writer begins.
const rowsBefore = 20000

// rowWriter commits transactions of random size on a server until it dies.
type rowWriter struct {
	cancel  context.CancelFunc
	done    chan struct{}
	commits atomic.Int64
}

func startRowWriter(s *cluster.Server, seed uint64) *rowWriter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &rowWriter{cancel: cancel, done: make(chan struct{})}
	go w.run(ctx, s, rand.New(rand.NewPCG(seed, 2)))
	return w
}

func (w *rowWriter) run(ctx context.Context, s *cluster.Server, rng *rand.Rand) {
	defer close(w.done)
	next := 1
	for ctx.Err() == nil {
		n := 1 + rng.IntN(5)
		if rng.IntN(20) == 0 {
			n = 3000 // larger than logical_decoding_work_mem: streamed while it goes on
		}
		err := s.Exec(ctx, "postgres", fmt.Sprintf("WITH n AS (INSERT INTO t SELECT i, repeat('x', 40) FROM generate_series(%d, %d) i RETURNING *) "+
			"INSERT INTO c SELECT i + %d, v FROM n", next, next+n-1, rowsBefore))
		if err != nil {
			return // the server is dead
		}
		next += n
		w.commits.Add(1)
	}
}

func (w *rowWriter) stop() {
	w.cancel()
	<-w.done
}

// waitCommits waits for so many more.
func (w *rowWriter) waitCommits(t *testing.T, n int64) {
	t.Helper()
	goal := w.commits.Load() + n
	(&testPair{t: t}).until("commits", func(context.Context) (bool, string) {
		got := w.commits.Load()
		return got >= goal, fmt.Sprint(got)
	})
}
