package bank

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster"
)

const (
	preparedEach = 2    // transactions that a writer leaves prepared at most
	streamedRows = 1500 // more than logical_decoding_work_mem at its least, 64 kB, can hold
	tablesEach   = 3    // of its own that a writer leaves at most
)

// defineTable makes a table, fills it before and after it gets another column, and
// drops one that was made so before: decoding has to see each row by the catalog
// of its moment.
func (k *work) defineTable(ctx context.Context) error {
	name := tableName(k.number)
	ids := []int64{k.t.ids.Add(1), k.t.ids.Add(1)}
	sql := fmt.Sprintf("CREATE TABLE %[1]s (id bigint PRIMARY KEY, note text); INSERT INTO %[1]s VALUES (%[2]d, 'narrow'); "+
		"ALTER TABLE %[1]s ADD extra int DEFAULT 7; INSERT INTO %[1]s VALUES (%[3]d, 'wide', 8);", name, ids[0], ids[1])
	if len(k.w.ddl) >= tablesEach {
		sql += fmt.Sprintf("DROP TABLE IF EXISTS %s;", tableName(k.w.ddl[0]))
		k.w.ddl = k.w.ddl[1:]
	}
	k.w.ddl = append(k.w.ddl, k.number)
	for _, id := range ids {
		k.changed(Inserted, name, id)
	}
	_, err := k.tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func tableName(number int64) string { return fmt.Sprintf("made_by_%d", number) }

// gid is the name of a prepared transaction, which says its number.
func gid(number int64) string { return fmt.Sprintf("bank_%d", number) }

// fate is how a prepared transaction is to end: the same wherever and whenever it is
// asked, as a transaction manager remembers it.
func fate(number int64) string {
	if number%4 == 0 {
		return "ROLLBACK"
	}
	return "COMMIT"
}

// prepare leaves the transaction prepared. Whether it is committed is decided
// later, perhaps on another server.
func (k *work) prepare(ctx context.Context) error {
	k.t.ended(k.number, Doubtful)
	k.w.prepared = append(k.w.prepared, k.number)
	if _, err := k.tx.Exec(ctx, fmt.Sprintf("PREPARE TRANSACTION '%s'", gid(k.number))); err != nil {
		return err
	}
	return k.tx.Rollback(ctx) // pgx's, which does not know that there is no transaction any more
}

// endPrepared ends what the writer has prepared, sometimes at once and sometimes
// some transactions later. One that is not there was lost with its server, or
// ended when the answer was lost.
func (t *Traffic) endPrepared(ctx context.Context, conn *pgx.Conn, w *writer) error {
	for len(w.prepared) > 0 && w.rng.IntN(3) == 0 {
		number := w.prepared[0]
		how := fate(number)
		_, err := conn.Exec(ctx, fmt.Sprintf("%s PREPARED '%s'", how, gid(number)))
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && refused.Code == codeUndefinedObject:
			// It stays in doubt.
		case err != nil:
			return err
		case how == "COMMIT":
			t.ended(number, Acked)
		default:
			t.ended(number, RolledBack)
		}
		w.prepared = w.prepared[1:]
	}
	return nil
}

// codeUndefinedObject is the SQLSTATE of a transaction that is not prepared.
const codeUndefinedObject = "42704"

// EndPrepared ends all transactions that are left prepared on a server. Nobody must
// write there. has says which of them a subscriber has got as committed, from a
// primary that died with that: such a commit is as lost as any other that the new
// primary never had. Committed there, it would be sent to the subscriber once more
// as a new transaction, and be refused as a duplicate key.
func (t *Traffic) EndPrepared(ctx context.Context, s *cluster.Server, has func(number int64) bool) error {
	numbers, err := cluster.QueryColumn[int64](ctx, s, t.cfg.Database,
		"SELECT substr(gid, 6)::bigint FROM pg_prepared_xacts WHERE database = current_database() ORDER BY 1")
	if err != nil {
		return err
	}
	var statements []string
	for _, number := range numbers {
		how := fate(number)
		if has(number) {
			how = "ROLLBACK"
		}
		statements = append(statements, fmt.Sprintf("%s PREPARED '%s'", how, gid(number)))
	}
	return s.Exec(ctx, t.cfg.Database, statements...)
}
