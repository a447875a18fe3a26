package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// work is one transaction under way.
type work struct {
	t      *traffic
	w      *writer
	tx     pgx.Tx
	number int64
	pace   <-chan time.Time

	changes []string
}

// do writes the rows of a transaction, some of this and some of that, and its
// entry in the journal. keep is false for a transaction that is to be rolled back.
func (k *work) do(ctx context.Context) (keep bool, err error) {
	rng := k.w.rng
	steps := []func(context.Context) error{k.insert, k.updateAccount}
	if rng.IntN(3) == 0 {
		steps = append(steps, k.insert, k.insert)
	}
	if len(k.w.entries) > 20 {
		steps = append(steps, k.updateEntry)
		if rng.IntN(2) == 0 {
			steps = append(steps, k.delete)
		}
	}
	if rng.IntN(8) == 0 {
		steps = append(steps, k.savepoint)
	}
	if rng.IntN(60) == 0 {
		steps = append(steps, k.bulk)
	}
	if k.w.slow {
		for range 40 { // about a third of a second
			steps = append(steps, k.wait)
		}
		steps = append(steps, k.insert)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	_, err = k.tx.Exec(ctx, "INSERT INTO journal VALUES ($1, $2, $3)", k.number, k.w.number, k.changes)
	return rng.IntN(25) != 0, err
}

func (k *work) changed(op operation, table string, id int64) {
	k.changes = append(k.changes, change{op, row{table, id}}.String())
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
	k.changed(inserted, "entry", id)
	k.w.entries = append(k.w.entries, id)
	return err
}

func (k *work) updateAccount(ctx context.Context) error {
	id := k.account()
	return k.affect(ctx, updated, "account", id,
		"UPDATE account SET balance = balance - 1, tx = $2 WHERE id = $1", id, k.number)
}

func (k *work) updateEntry(ctx context.Context) error {
	id := k.w.entries[k.w.rng.IntN(len(k.w.entries))]
	return k.affect(ctx, updated, "entry", id,
		"UPDATE entry SET note = $3, tx = $2 WHERE id = $1", id, k.number, k.note())
}

func (k *work) delete(ctx context.Context) error {
	i := k.w.rng.IntN(len(k.w.entries))
	id := k.w.entries[i]
	k.w.entries[i] = k.w.entries[len(k.w.entries)-1]
	k.w.entries = k.w.entries[:len(k.w.entries)-1]
	return k.affect(ctx, deleted, "entry", id, "DELETE FROM entry WHERE id = $1", id)
}

// affect changes a row that may not be there: it was rolled back, or the new
// primary never got it.
func (k *work) affect(ctx context.Context, op operation, table string, id int64, sql string, args ...any) error {
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
func (k *work) bulk(ctx context.Context) error {
	const rows = 200
	last := k.t.ids.Add(rows)
	_, err := k.tx.Exec(ctx, `INSERT INTO entry (id, account, amount, note, tx)
		SELECT g, $3, 1, 'bulk', $4 FROM generate_series($1::bigint, $2::bigint) g`, last-rows+1, last, k.account(), k.number)
	for id := last - rows + 1; id <= last; id++ {
		k.changed(inserted, "entry", id)
	}
	return err
}
