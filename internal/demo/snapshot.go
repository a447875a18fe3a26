package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
)

// tables are all that the demo compares.
var tables = []string{"account", "entry", "journal"}

// schema is the same on the primary and on the subscriber.
const schema = `
CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2) NOT NULL, tx bigint NOT NULL);
CREATE TABLE entry (id bigint PRIMARY KEY, account bigint NOT NULL, amount numeric(12,2) NOT NULL, note text,
	tx bigint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE journal (id bigint PRIMARY KEY, writer int NOT NULL, changes text[] NOT NULL)`

// readContents reads every row of every table, all from one snapshot.
func readContents(ctx context.Context, s *cluster.Server) (contents, error) {
	all := contents{}
	err := inSnapshot(ctx, s, func(tx pgx.Tx) error {
		for _, table := range tables {
			rows, err := tx.Query(ctx, fmt.Sprintf("SELECT id, t::text FROM %s t", table))
			if err != nil {
				return err
			}
			var id int64
			var text string
			_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error {
				all[row{table, id}] = text
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

// readJournal reads the history of a server.
func readJournal(ctx context.Context, s *cluster.Server) (journal, error) {
	history := journal{}
	err := inSnapshot(ctx, s, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT id, changes FROM journal")
		if err != nil {
			return err
		}
		var id int64
		var texts []string
		_, err = pgx.ForEachRow(rows, []any{&id, &texts}, func() error {
			changes := make([]change, 0, len(texts))
			for _, text := range texts {
				c, err := parseChange(text)
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

func inSnapshot(ctx context.Context, s *cluster.Server, read func(tx pgx.Tx) error) error {
	conn, err := s.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, read)
}
