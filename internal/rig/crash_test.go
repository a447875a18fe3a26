package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

const crashRounds = 20

// kill -9 of helper, relay, standby and primary at random moments under load: it
// always converges to slots that are ready, and at no moment is a slot on the
// standby past what its consumer has confirmed (I-1, I-4, I-10). After a last kill
// of the primary nothing is lost.
func TestCrashesConverge(t *testing.T) {
	each(t, func(t *testing.T, p *testPair) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		p.waitAnchor(p.B)
		c := newConsumer(p, "c0", "c1", "c2")
		for _, slot := range c.slots {
			p.createSlot(p.A, slot)
		}
		c.start()
		defer c.stop()
		for _, slot := range c.slots {
			p.waitReady(p.B, slot)
		}
		for round := range crashRounds {
			c.waitConsumed(1 + rng.IntN(4)) // a random moment, in units of work done
			victim := rng.IntN(4)
			if err := p.crash(t.Context(), victim); err != nil {
				t.Fatalf("round %d, victim %d: %v", round, victim, err)
			}
			for _, slot := range c.slots {
				p.waitReady(p.B, slot)
			}
		}
		c.waitConsumed(2)
		if err := p.A.Server.WaitForStandby(t.Context(), p.B.Server); err != nil {
			t.Fatal(err)
		}
		c.stop()
		if err := p.A.Server.WaitForStandby(t.Context(), p.B.Server); err != nil {
			t.Fatal(err)
		}
		if err := p.A.Server.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(p.B)
		for _, slot := range c.slots {
			rest := p.rows(p.B, slot)
			for i := 1; i <= c.last; i++ {
				if !c.got[slot][i] && rest[i] == 0 {
					t.Errorf("slot %s: row %d is lost", slot, i)
				}
			}
		}
		t.Logf("%d rows, %d looks at the standby's slots", c.last, c.looks)
	})
}

// crash kills one part and starts it again.
func (p *Pair) crash(ctx context.Context, victim int) error {
	switch victim {
	case 0:
		if err := p.B.Helper.Kill9(); err != nil {
			return err
		}
		return p.B.Helper.Start(ctx)
	case 1:
		if p.A.Relay == nil {
			return nil
		}
		if err := p.A.Relay.Kill9(); err != nil {
			return err
		}
		return p.A.Relay.Start(ctx)
	case 2:
		if err := p.B.Server.Kill9(); err != nil {
			return err
		}
		return p.B.Server.Start(ctx)
	default:
		if err := p.A.Server.Kill9(); err != nil {
			return err
		}
		return p.A.Server.Start(ctx)
	}
}

// consumer writes rows on the primary, consumes its slots at random, and watches
// that no slot of the standby is ever past what it has confirmed.
type consumer struct {
	p     *testPair
	slots []string

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	last  int                     // rows 1 to last are committed
	got   map[string]map[int]bool // rows each slot has sent
	bound map[string]protocol.LSN // no slot has been confirmed past this
	done  int                     // consumed batches
	looks int
}

func newConsumer(p *testPair, slots ...string) *consumer {
	c := &consumer{p: p, slots: slots, got: map[string]map[int]bool{}, bound: map[string]protocol.LSN{}}
	for _, s := range slots {
		c.got[s] = map[int]bool{}
	}
	return c
}

func (c *consumer) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for _, slot := range c.slots {
		c.bound[slot] = confirmed(c.p.t, c.p.A, slot)
	}
	c.wg.Go(func() { c.work(ctx) })
	c.wg.Go(func() { c.watch(ctx) })
}

func (c *consumer) stop() {
	c.cancel()
	c.wg.Wait()
}

// work writes and consumes. The primary may be down: then it tries again.
func (c *consumer) work(ctx context.Context) {
	for n := 1; ctx.Err() == nil; {
		_, err := cluster.QueryValue[int64](ctx, c.p.A.Server, "postgres",
			fmt.Sprintf("INSERT INTO t VALUES (%d, 'row') ON CONFLICT (i) DO UPDATE SET v = 'row' RETURNING i", n))
		if err != nil {
			continue // whether it was committed is not known: the same row again
		}
		c.mu.Lock()
		c.last = n
		c.mu.Unlock()
		n++
		slot := c.slots[n%len(c.slots)]
		if n%3 == 0 {
			c.consume(ctx, slot)
		}
	}
}

// consume reads what a slot sends, and only then confirms up to a position that
// was noted before: so the bound holds even if the primary dies in between.
func (c *consumer) consume(ctx context.Context, slot string) {
	text, err := cluster.QueryValue[string](ctx, c.p.A.Server, "postgres", "SELECT pg_current_wal_flush_lsn()::text")
	if err != nil {
		return
	}
	lsn, err := protocol.ParseLSN(text)
	if err != nil {
		return
	}
	lines, err := cluster.QueryColumn[string](ctx, c.p.A.Server, "postgres",
		fmt.Sprintf("SELECT data FROM pg_logical_slot_peek_changes('%s', NULL, NULL) WHERE data LIKE 'table public.t: %%'", slot))
	if err != nil {
		return
	}
	c.mu.Lock()
	for _, line := range lines {
		var i int
		var kind string
		if _, err := fmt.Sscanf(line, "table public.t: %s i[bigint]:%d", &kind, &i); err == nil {
			c.got[slot][i] = true
		}
	}
	c.bound[slot] = max(c.bound[slot], lsn)
	c.mu.Unlock()
	_, err = cluster.QueryValue[string](ctx, c.p.A.Server, "postgres",
		fmt.Sprintf("SELECT end_lsn::text FROM pg_replication_slot_advance('%s', '%v')", slot, lsn))
	if err != nil {
		return
	}
	c.mu.Lock()
	c.done++
	c.mu.Unlock()
}

// watch looks at the standby's slots all the time.
func (c *consumer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		lines, err := cluster.QueryColumn[string](ctx, c.p.B.Server, "postgres",
			"SELECT slot_name || ' ' || confirmed_flush_lsn FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT temporary")
		if err != nil {
			continue // the standby is down
		}
		c.mu.Lock()
		c.looks++
		for _, line := range lines {
			var slot, text string
			if _, err := fmt.Sscan(line, &slot, &text); err != nil {
				c.p.t.Errorf("slot %q: %v", line, err)
				continue
			}
			lsn, err := protocol.ParseLSN(text)
			if bound, known := c.bound[slot]; err != nil || !known || lsn > bound {
				c.p.t.Errorf("slot %s is on the standby at %v, confirmed is at most %v (%v)", slot, lsn, bound, err)
			}
		}
		c.mu.Unlock()
	}
}

// waitConsumed waits until so many more batches have been consumed.
func (c *consumer) waitConsumed(n int) {
	c.p.t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.done
	}
	goal := count() + n
	poll.Require(c.p.t, waitTime, "batches to be consumed", func(context.Context) (bool, string) {
		return count() >= goal, fmt.Sprint(count())
	})
}
