package bank

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

// defaultPace is the pause between two transactions of a writer.
const defaultPace = 8 * time.Millisecond

// TrafficConfig says who writes, and what.
type TrafficConfig struct {
	Database string // empty: postgres
	Writers  int    // the first of them keeps a transaction open all the time
	Seed     uint64
	Hard     bool // prepared transactions, DDL and transactions large enough to be streamed, too
	Whole    bool // no savepoint is rolled back

	// Pace is the pause between two transactions of a writer; 0 is 8 ms. All that is
	// written is remembered: who lets it go on for an hour wants a longer one.
	Pace time.Duration
}

// Outcome is what a writer knows of a transaction.
type Outcome int

// The outcomes.
const (
	Unended    Outcome = iota // nobody has tried to end it: never committed
	Acked                     // the server said COMMIT
	Doubtful                  // the connection broke while COMMIT was under way, or it is prepared
	RolledBack                // never committed
)

// Traffic is what the application does: writers with transactions that overlap,
// and a record of what they were told.
type Traffic struct {
	cfg     TrafficConfig
	writers []*writer

	// ids are of entries and transactions. None is used twice, so no row of one
	// server clashes with another's.
	ids atomic.Int64

	stopping atomic.Bool
	wg       sync.WaitGroup

	mu       sync.Mutex
	outcomes map[int64]Outcome
	acked    int
	errs     []error
}

// writer is one client. It is used by one goroutine.
type writer struct {
	number   int
	slow     bool // keeps a transaction open all the time
	rng      *rand.Rand
	entries  []int64 // that it has written and not deleted
	prepared []int64 // transactions that it has prepared and not ended
	ddl      []int64 // tables of its own, by the number of the transaction that made them
}

// NewTraffic makes the writers of a traffic that has not begun.
func NewTraffic(cfg TrafficConfig) *Traffic {
	if cfg.Database == "" {
		cfg.Database = "postgres"
	}
	if cfg.Pace == 0 {
		cfg.Pace = defaultPace
	}
	t := &Traffic{cfg: cfg, outcomes: map[int64]Outcome{}}
	t.ids.Store(1_000_000)
	for n := range cfg.Writers {
		t.writers = append(t.writers, &writer{number: n + 1, slow: n == 0, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(n)))})
	}
	return t
}

// Accounts makes the rows that are there from the beginning.
func (t *Traffic) Accounts() string {
	return fmt.Sprintf("INSERT INTO account SELECT g, 'owner ' || g, 1000, 0 FROM generate_series(%d, %d) g",
		accountsEach, (len(t.writers)+1)*accountsEach-1)
}

// Start lets all writers write on a server until Stop, or until they lose it.
func (t *Traffic) Start(ctx context.Context, s *cluster.Server) {
	t.run(func(w *writer) error { return t.write(ctx, s, w) })
}

// Follow lets all writers write until Stop on whatever server current names, again
// and again when they lose it; nil is none at the moment.
func (t *Traffic) Follow(ctx context.Context, current func() *cluster.Server) {
	t.run(func(w *writer) error {
		for !t.stopping.Load() && ctx.Err() == nil {
			if s := current(); s != nil {
				_ = t.write(ctx, s, w) // it has lost its server
			}
			select {
			case <-time.After(20 * t.cfg.Pace):
			case <-ctx.Done():
			}
		}
		return nil
	})
}

func (t *Traffic) run(write func(w *writer) error) {
	t.stopping.Store(false)
	for _, w := range t.writers {
		t.wg.Go(func() {
			if err := write(w); err != nil {
				t.mu.Lock()
				t.errs = append(t.errs, fmt.Errorf("writer %d: %w", w.number, err))
				t.mu.Unlock()
			}
		})
	}
}

// Stop lets the writers end their transactions, and returns what went wrong since
// Start.
func (t *Traffic) Stop() error {
	t.stopping.Store(true)
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.Join(t.errs...)
	t.errs = nil
	return err
}

// Failed returns what went wrong so far.
func (t *Traffic) Failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}

// Committed counts the commits that were acknowledged.
func (t *Traffic) Committed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acked
}

// Outcome returns what is known of a transaction.
func (t *Traffic) Outcome(number int64) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcomes[number]
}

// Last returns the highest number in use: each transaction that begins from now on
// has a higher one.
func (t *Traffic) Last() int64 { return t.ids.Load() }

// Unreceived returns the acknowledged commits that a history does not have, and
// how many in doubt it does not have.
func (t *Traffic) Unreceived(history Journal) (acked []int64, doubtful int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, o := range t.outcomes {
		_, has := history[id]
		switch {
		case has:
		case o == Acked:
			acked = append(acked, id)
		case o == Doubtful:
			doubtful++
		}
	}
	return acked, doubtful
}

func (t *Traffic) ended(number int64, o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes[number] = o
	if o == Acked {
		t.acked++
	}
}

// write runs one transaction after another, with a pause in between: nobody shall
// need the whole machine.
func (t *Traffic) write(ctx context.Context, s *cluster.Server, w *writer) error {
	conn, err := s.Connect(ctx, t.cfg.Database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(t.cfg.Pace)
	defer tick.Stop()
	for !t.stopping.Load() {
		if err := t.endPrepared(ctx, conn, w); err != nil {
			return err
		}
		if err := t.transaction(ctx, conn, w, tick.C); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// transaction writes what the writer thinks of, and keeps what the server said.
func (t *Traffic) transaction(ctx context.Context, conn *pgx.Conn, w *writer, tick <-chan time.Time) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	k := work{t: t, w: w, tx: tx, number: t.ids.Add(1), pace: tick}
	if k.plan(); k.end == rollback {
		t.ended(k.number, RolledBack)
	}
	if err := k.do(ctx); err != nil {
		return err // the connection is given up, and with it the transaction
	}
	switch k.end {
	case rollback:
		return tx.Rollback(ctx)
	case prepare:
		return k.prepare(ctx)
	}
	if err = tx.Commit(ctx); err != nil {
		t.ended(k.number, Doubtful)
		return err
	}
	t.ended(k.number, Acked)
	return nil
}
