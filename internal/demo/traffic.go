package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
)

// Accounts are shared out: writer w changes accounts w*100 to w*100+99.
const accountsEach = 100

// traffic is what the application does: writers with transactions that overlap,
// and a record of what they were told.
type traffic struct {
	writers []*writer

	// ids are of entries and transactions. None is used twice, so no row of one
	// server clashes with another's.
	ids atomic.Int64

	stopping atomic.Bool
	wg       sync.WaitGroup

	mu       sync.Mutex
	acked    map[int64]bool // the server said COMMIT
	doubtful map[int64]bool // the connection broke while COMMIT was under way
	errs     []error
}

// writer is one client. It is used by one goroutine.
type writer struct {
	number  int
	slow    bool // keeps a transaction open all the time
	rng     *rand.Rand
	entries []int64 // that it has written and not deleted
}

func newTraffic(writers int, seed uint64) *traffic {
	t := &traffic{acked: map[int64]bool{}, doubtful: map[int64]bool{}}
	t.ids.Store(1_000_000)
	for n := range writers {
		t.writers = append(t.writers, &writer{number: n + 1, slow: n == 0, rng: rand.New(rand.NewPCG(seed, uint64(n)))})
	}
	return t
}

// accounts makes the rows that are there from the beginning.
func (t *traffic) accounts() string {
	return fmt.Sprintf("INSERT INTO account SELECT g, 'owner ' || g, 1000, 0 FROM generate_series(%d, %d) g",
		accountsEach, (len(t.writers)+1)*accountsEach-1)
}

// start lets all writers write on a server until stop, or until they lose it.
func (t *traffic) start(ctx context.Context, s *cluster.Server) {
	t.stopping.Store(false)
	for _, w := range t.writers {
		t.wg.Go(func() {
			if err := t.write(ctx, s, w); err != nil {
				t.mu.Lock()
				t.errs = append(t.errs, fmt.Errorf("writer %d: %w", w.number, err))
				t.mu.Unlock()
			}
		})
	}
}

// stop lets the writers end their transactions, and returns what went wrong since
// start.
func (t *traffic) stop() error {
	t.stopping.Store(true)
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.Join(t.errs...)
	t.errs = nil
	return err
}

// failed returns what went wrong so far.
func (t *traffic) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}

// committed counts the commits that were acknowledged.
func (t *traffic) committed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.acked)
}

// unreceived returns the acknowledged commits that a history does not have, and
// how many in doubt it does not have.
func (t *traffic) unreceived(history journal) (acked, doubtful int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := func(set map[int64]bool) (n int) {
		for id := range set {
			if _, has := history[id]; !has {
				n++
			}
		}
		return n
	}
	return count(t.acked), count(t.doubtful)
}

// write runs one transaction after another, with a pause in between: the demo
// shall not need the whole machine.
func (t *traffic) write(ctx context.Context, s *cluster.Server, w *writer) error {
	conn, err := s.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	pace := time.NewTicker(8 * time.Millisecond)
	defer pace.Stop()
	for !t.stopping.Load() {
		if err := t.transaction(ctx, conn, w, pace.C); err != nil {
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// transaction writes what the writer thinks of, and keeps what the server said.
func (t *traffic) transaction(ctx context.Context, conn *pgx.Conn, w *writer, pace <-chan time.Time) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	k := work{t: t, w: w, tx: tx, number: t.ids.Add(1), pace: pace}
	keep, err := k.do(ctx)
	if err != nil {
		return err // the connection is given up, and with it the transaction
	}
	if !keep {
		return tx.Rollback(ctx)
	}
	err = tx.Commit(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.doubtful[k.number] = true
		return err
	}
	t.acked[k.number] = true
	return nil
}
