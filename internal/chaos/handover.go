package chaos

import (
	"context"
	"fmt"
	"slices"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
	"github.com/slotferry/slotferry/protocol"
)

// moves begins what a promotion makes of each slot, a moment before the primary
// ends.
func (w *world) moves(phase int) []Move {
	var list []Move
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(slot string) {
		list = append(list, Move{Slot: slot, Phase: phase, Ready: w.watch.ready(slot), Known: w.watch.known(slot)})
	}
	for _, c := range w.schedule.Consumers {
		if c.Plugin == pgoutput {
			add(c.Name)
		}
	}
	for name, s := range w.streams {
		if !s.ended() {
			add(name)
		}
	}
	return list
}

// handOver does what an operator does before anybody writes on the new primary:
// looks whether a subscriber is ahead of it, and moves it past that. Behind hold-back
// there is nothing to look for. Then it lets everybody come.
func (w *world) handOver(ctx context.Context, standby *rig.Node, slots []Move, report *decoder.PromotionReport) error {
	applied, err := w.appliedUpTo(ctx)
	if err != nil {
		return err
	}
	goal := protocol.InvalidLSN
	for _, lsn := range applied {
		if !w.schedule.HoldBack {
			goal = max(goal, lsn)
		}
	}
	if err := passBy(ctx, standby.Server, goal); err != nil {
		return err
	}
	if err := w.endPrepared(ctx, standby.Server); err != nil { // COMMIT PREPARED writes, too
		return err
	}
	at, err := positions(ctx, standby.Server)
	if err != nil {
		return err
	}
	for _, m := range slots {
		m.At, m.Usable = at[m.Slot], at[m.Slot] != 0
		m.Confirmed = applied[m.Slot]
		if s := w.stream(m.Slot); s != nil {
			m.Confirmed = s.consumer.Position()
		}
		if report != nil {
			m.Switch = report.SwitchLSN
		}
		w.evidence.Moves = append(w.evidence.Moves, m)
	}
	w.turnTo(standby)
	w.say("everybody turns to %s", standby.Name)
	return nil
}

// endPrepared ends what the dead primary has left prepared.
func (w *world) endPrepared(ctx context.Context, s *cluster.Server) error {
	for database, t := range w.traffic {
		theirs, err := bank.ReadJournal(ctx, w.subscriber, database)
		if err != nil {
			return err
		}
		err = t.EndPrepared(ctx, s, func(number int64) bool { _, has := theirs[number]; return has })
		if err != nil {
			return err
		}
	}
	return nil
}

// appliedUpTo returns how far each subscription has come in its primary's WAL,
// when what was under way has arrived.
func (w *world) appliedUpTo(ctx context.Context) (map[string]protocol.LSN, error) {
	var applied map[string]protocol.LSN
	err := poll.Until(ctx, waitTime, "the subscriptions to come to rest", func(ctx context.Context) (bool, string) {
		lines, err := cluster.QueryColumn[string](ctx, w.subscriber, databases[0], `SELECT s.subname || ' ' || coalesce(o.remote_lsn, '0/0')
			FROM pg_subscription s LEFT JOIN pg_replication_origin_status o ON o.external_id = 'pg_' || s.oid`)
		if err != nil {
			return false, err.Error()
		}
		before := applied
		if applied, err = parsePositions(lines); err != nil {
			return false, err.Error()
		}
		return before != nil && fmt.Sprint(before) == fmt.Sprint(applied), fmt.Sprint(applied)
	})
	return applied, err
}

// passBy moves the end of a server's WAL past a position.
func passBy(ctx context.Context, s *cluster.Server, goal protocol.LSN) error {
	for {
		at, err := s.CurrentLSN(ctx)
		if err != nil || at > goal {
			return err
		}
		if err := s.Exec(ctx, databases[0], "SELECT pg_log_standby_snapshot(), pg_switch_wal()"); err != nil {
			return err
		}
	}
}

// positions reads where the logical slots of a server are.
func positions(ctx context.Context, s *cluster.Server) (map[string]protocol.LSN, error) {
	lines, err := cluster.QueryColumn[string](ctx, s, databases[0], `SELECT slot_name || ' ' || confirmed_flush_lsn
		FROM pg_replication_slots WHERE slot_type = 'logical' AND confirmed_flush_lsn IS NOT NULL AND NOT temporary`)
	if err != nil {
		return nil, err
	}
	return parsePositions(lines)
}

func parsePositions(lines []string) (map[string]protocol.LSN, error) {
	at := map[string]protocol.LSN{}
	for _, line := range lines {
		var name, text string
		if _, err := fmt.Sscan(line, &name, &text); err != nil {
			return nil, fmt.Errorf("read position %q: %w", line, err)
		}
		lsn, err := protocol.ParseLSN(text)
		if err != nil {
			return nil, err
		}
		at[name] = lsn
	}
	return at, nil
}

// account looks which acknowledged commits the new primary does not have, before
// anybody writes there. After a failover that is as it is; a switchover keeps all.
func (w *world) account(ctx context.Context, s *cluster.Server, end End) error {
	for database, t := range w.traffic {
		history, err := bank.ReadJournal(ctx, s, database)
		if err != nil {
			return err
		}
		lost, _ := t.Unreceived(history)
		for _, n := range lost {
			switch {
			case end == Failover:
				w.gone[commitOf{database, n}] = true
			case !w.gone[commitOf{database, n}]:
				w.evidence.Forgotten = append(w.evidence.Forgotten, n)
			}
		}
	}
	slices.Sort(w.evidence.Forgotten)
	return nil
}
