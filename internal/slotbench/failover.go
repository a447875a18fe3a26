package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// afterwards is how many rows a new primary writes before subscribers come to it.
const afterwards = 20

// failOver kills the primary under load, promotes both standbys, and lets every
// subscriber go on with each of them, when both are done with their slots.
func (b *bench) failOver(ctx context.Context, l *load) (result pairOf[failover], err error) {
	if err := b.pair.A.Server.Kill9(); err != nil {
		return result, err
	}
	l.end()
	for _, s := range b.subscribers {
		<-s.ended // with the primary
	}
	for _, do := range []func(context.Context, *contestant, *failover) error{promote, b.goOn} {
		err := b.each(func(c *contestant) error {
			if c == b.both.Slotferry {
				return do(ctx, c, &result.Slotferry)
			}
			return do(ctx, c, &result.Worker)
		})
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

// promote promotes a standby, and waits until its slots are left alone.
func promote(ctx context.Context, c *contestant, f *failover) error {
	began := time.Now()
	if err := c.server.Promote(ctx); err != nil {
		return err
	}
	f.PromotedMs = milliseconds(time.Since(began))
	err := c.promoted(ctx)
	f.SlotsDoneMs = milliseconds(time.Since(began)) - f.PromotedMs
	return err
}

// goOn counts what the subscribers get from a new primary.
func (b *bench) goOn(ctx context.Context, c *contestant, f *failover) error {
	until, err := b.writeAfterwards(ctx, c.server)
	if err != nil {
		return err
	}
	there, err := rowsOf(ctx, c.server)
	if err != nil {
		return err
	}
	f.Rows = len(there)
	slots, err := cluster.QueryColumn[string](ctx, c.server, "postgres",
		"SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT temporary AND invalidation_reason IS NULL")
	if err != nil {
		return err
	}
	for _, s := range b.subscribers {
		if !slices.Contains(slots, s.slot) {
			f.SlotsMissing++
			continue
		}
		again, lost, err := b.resume(ctx, c.server, s, protocol.InvalidLSN, until, there)
		if err != nil {
			return err
		}
		f.again = append(f.again, float64(again))
		f.Lost += lost
		again, lost, err = b.resume(ctx, c.server, s, s.position(), until, there)
		if err != nil {
			return err
		}
		f.AgainFromOwn += again
		f.LostFromOwn += lost
		for id := range s.rows {
			if !there[id] {
				f.Ahead++
			}
		}
	}
	f.Again = quantilesOf(f.again)
	return nil
}

// rowsOf returns the numbers of the rows that a server has.
func rowsOf(ctx context.Context, server *cluster.Server) (map[int64]bool, error) {
	list, err := cluster.QueryColumn[int64](ctx, server, "postgres", "SELECT id FROM pgbench_history")
	rows := make(map[int64]bool, len(list))
	for _, id := range list {
		rows[id] = true
	}
	return rows, err
}

// writeAfterwards does what the runbook says before the first write: it moves WAL past
// what any subscriber has confirmed. Then it writes some rows, and returns where they
// end.
func (b *bench) writeAfterwards(ctx context.Context, server *cluster.Server) (protocol.LSN, error) {
	var most protocol.LSN
	for _, s := range b.subscribers {
		most = max(most, s.position())
	}
	err := poll.Until(ctx, readyTimeout, "WAL to pass the subscribers", func(ctx context.Context) (bool, string) {
		at, err := server.CurrentLSN(ctx)
		if err == nil && at <= most {
			err = server.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot(), pg_switch_wal()")
		}
		return err == nil && at > most, fmt.Sprint(at, err)
	})
	if err != nil {
		return 0, err
	}
	err = server.Exec(ctx, "postgres", "SELECT setval(pg_get_serial_sequence('pgbench_history', 'id'), 1000000000)",
		fmt.Sprintf("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) SELECT 1, 1, 1, 1, now() FROM generate_series(1, %d)", afterwards))
	if err != nil {
		return 0, err
	}
	return server.CurrentLSN(ctx)
}

// resume lets a subscriber go on from a position, or, if that is 0/0, from where the
// slot is, and confirm nothing. It counts the rows that came again, and those of the
// new primary that it still has not got.
func (b *bench) resume(ctx context.Context, server *cluster.Server, s *subscriber, from, until protocol.LSN,
	there map[int64]bool) (again, lost int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	got := map[int64]bool{}
	var stream *subscription
	err = poll.Until(ctx, readyTimeout, "slot "+s.slot+" to be free", func(ctx context.Context) (bool, string) {
		stream, err = subscribe(ctx, server, s.slot, from, func(rows []int64, _ protocol.LSN) {
			for _, id := range rows {
				got[id] = true
			}
		})
		return err == nil, fmt.Sprint(err) // the walsender of the time before may be there still
	})
	if err != nil {
		return 0, 0, err
	}
	if err := stream.run(ctx, until, nil); err != nil {
		return 0, 0, fmt.Errorf("go on with slot %q: %w", s.slot, err)
	}
	if ctx.Err() != nil {
		return 0, 0, fmt.Errorf("go on with slot %q: not at %v after %s", s.slot, until, readyTimeout)
	}
	for id := range got {
		if s.rows[id] {
			again++
		}
	}
	for id := range there {
		if !b.before[id] && !s.rows[id] && !got[id] {
			lost++
		}
	}
	return again, lost, nil
}
