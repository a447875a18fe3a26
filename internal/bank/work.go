package bank

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ending is how a transaction is to end.
type ending int

const (
	commit ending = iota
	rollback
	prepare
)

// work is one transaction under way.
type work struct {
	t      *Traffic
	w      *writer
	tx     pgx.Tx
	number int64
	pace   <-chan time.Time

	steps   []func(context.Context) error
	end     ending
	changes []string
}

// plan thinks of what to write, some of this and some of that, and how to end it.
func (k *work) plan() {
	rng := k.w.rng
	if rng.IntN(25) == 0 {
		k.end = rollback
	}
	if k.t.cfg.Hard && rng.IntN(12) == 0 && len(k.w.prepared) < preparedEach {
		// What it locks stays locked until it is ended, so it changes no row that
		// others want.
		k.end = prepare
		k.steps = append(k.steps, k.insert, k.insert)
		return
	}
	k.steps = append(k.steps, k.insert, k.updateAccount)
	if rng.IntN(3) == 0 {
		k.steps = append(k.steps, k.insert, k.insert)
	}
	if len(k.w.entries) > 20 {
		k.steps = append(k.steps, k.updateEntry)
		if rng.IntN(2) == 0 {
			k.steps = append(k.steps, k.delete)
		}
	}
	if rng.IntN(8) == 0 && !k.t.cfg.Whole {
		k.steps = append(k.steps, k.savepoint)
	}
	if rng.IntN(60) == 0 {
		k.steps = append(k.steps, k.bulk(200))
	}
	if k.t.cfg.Hard {
		if rng.IntN(15) == 0 {
			k.steps = append(k.steps, k.defineTable)
		}
		if rng.IntN(50) == 0 {
			k.steps = append(k.steps, k.bulk(streamedRows))
		}
	}
	if k.w.slow {
		for range 40 { // about a third of a second
			k.steps = append(k.steps, k.wait)
		}
		k.steps = append(k.steps, k.insert)
	}
}

// do writes the rows of the transaction and its entry in the journal.
func (k *work) do(ctx context.Context) error {
	for _, step := range k.steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	_, err := k.tx.Exec(ctx, "INSERT INTO journal VALUES ($1, $2, $3)", k.number, k.w.number, k.changes)
	return err
}

func (k *work) changed(op Operation, table string, id int64) {
	k.changes = append(k.changes, Change{op, Row{table, id}}.String())
}

func (k *work) wait(ctx context.Context) error {
	select {
	case <-k.pace:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *work) account() int64 {
	return int64(k.w.number*accountsEach + k.w.rng.IntN(accountsEach))
}

// note is short most of the time, and sometimes so long that it goes into TOAST.
func (k *work) note() string {
	if k.w.rng.IntN(20) != 0 {
		return fmt.Sprintf("note %d", k.w.rng.Int())
	}
	var b strings.Builder
	for b.Len() < 6000 {
		fmt.Fprintf(&b, "%016x", k.w.rng.Uint64())
	}
	return b.String()
}

func (k *work) insert(ctx context.Context) error {
	id := k.t.ids.Add(1)
	_, err := k.tx.Exec(ctx, "INSERT INTO entry (id, account, amount, note, tx) VALUES ($1, $2, $3, $4, $5)",
		id, k.account(), k.w.rng.IntN(1000), k.note(), k.number)
	k.changed(Inserted, "entry", id)
	k.w.entries = append(k.w.entries, id)
	return err
}

func (k *work) updateAccount(ctx context.Context) error {
	id := k.account()
	return k.affect(ctx, Updated, "account", id,
		"UPDATE account SET balance = balance - 1, tx = $2 WHERE id = $1", id, k.number)
}

func (k *work) updateEntry(ctx context.Context) error {
	id := k.w.entries[k.w.rng.IntN(len(k.w.entries))]
	return k.affect(ctx, Updated, "entry", id,
		"UPDATE entry SET note = $3, tx = $2 WHERE id = $1", id, k.number, k.note())
}

func (k *work) delete(ctx context.Context) error {
	i := k.w.rng.IntN(len(k.w.entries))
	id := k.w.entries[i]
	k.w.entries[i] = k.w.entries[len(k.w.entries)-1]
	k.w.entries = k.w.entries[:len(k.w.entries)-1]
	return k.affect(ctx, Deleted, "entry", id, "DELETE FROM entry WHERE id = $1", id)
}

// affect changes a row that may not be there: it was rolled back, or the new
// primary never got it.
func (k *work) affect(ctx context.Context, op Operation, table string, id int64, sql string, args ...any) error {
	tag, err := k.tx.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() == 1 {
		k.changed(op, table, id)
	}
	return err
}

// savepoint writes rows that never come to be.
func (k *work) savepoint(ctx context.Context) error {
	inner, err := k.tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := inner.Exec(ctx, "INSERT INTO entry (id, account, amount, note, tx) VALUES ($1, 0, 0, 'never', $2)",
		k.t.ids.Add(1), k.number); err != nil {
		return err
	}
	return inner.Rollback(ctx)
}

// bulk writes many rows by one statement.
func (k *work) bulk(rows int64) func(context.Context) error {
	return func(ctx context.Context) error {
		last := k.t.ids.Add(rows)
		_, err := k.tx.Exec(ctx, `INSERT INTO entry (id, account, amount, note, tx)
			SELECT g, $3, 1, 'one of many rows, and long enough to count', $4 FROM generate_series($1::bigint, $2::bigint) g`,
			last-rows+1, last, k.account(), k.number)
		for id := last - rows + 1; id <= last; id++ {
			k.changed(Inserted, "entry", id)
		}
		return err
	}
}
