package bank

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
)

// journalTable is where each transaction writes what it did.
const journalTable = "journal"

// tables are all that is compared row by row.
var tables = []string{"account", "entry", journalTable}

// Schema is the same on the primary and on a subscriber.
const Schema = `
CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2) NOT NULL, tx bigint NOT NULL);
CREATE TABLE entry (id bigint PRIMARY KEY, account bigint NOT NULL, amount numeric(12,2) NOT NULL, note text,
	tx bigint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE journal (id bigint PRIMARY KEY, writer int NOT NULL, changes text[] NOT NULL)`

// Publish makes a publication of the tables of Schema.
const Publish = "CREATE PUBLICATION bank FOR TABLE account, entry, journal"

// ReadContents reads every row of the tables of Schema, all from one snapshot.
func ReadContents(ctx context.Context, s *cluster.Server, database string) (Contents, error) {
	all := Contents{}
	err := inSnapshot(ctx, s, database, func(tx pgx.Tx) error {
		for _, table := range tables {
			rows, err := tx.Query(ctx, fmt.Sprintf("SELECT id, t::text FROM %s t", table))
			if err != nil {
				return err
			}
			var id int64
			var text string
			_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error {
				all[Row{table, id}] = text
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read all rows of server %q: %w", s.Name(), err)
	}
	return all, nil
}

// ReadJournal reads the history of a server.
func ReadJournal(ctx context.Context, s *cluster.Server, database string) (Journal, error) {
	history := Journal{}
	err := inSnapshot(ctx, s, database, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT id, changes FROM journal")
		if err != nil {
			return err
		}
		var id int64
		var texts []string
		_, err = pgx.ForEachRow(rows, []any{&id, &texts}, func() error {
			changes := make([]Change, 0, len(texts))
			for _, text := range texts {
				c, err := ParseChange(text)
				if err != nil {
					return err
				}
				changes = append(changes, c)
			}
			history[id] = changes
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read journal of server %q: %w", s.Name(), err)
	}
	return history, nil
}

func inSnapshot(ctx context.Context, s *cluster.Server, database string, read func(tx pgx.Tx) error) error {
	conn, err := s.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, read)
}
