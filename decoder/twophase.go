package decoder

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/protocol"
)

// A copy never has two_phase. PostgreSQL 18 lets ALTER_REPLICATION_SLOT set it; on
// 16 and 17 the one way is pgoutput's own option, which marks the slot when a
// decoding session begins (CreateDecodingContext, logical.c).

// alterVersion is the first version that can set two_phase on a slot.
const alterVersion = 180000

// judgeTwoPhase says why a slot with two_phase cannot be made or adopted here
// (I-8); the zero verdict when it can.
func judgeTwoPhase(v *View, u *protocol.SlotState) verdict {
	if u.TwoPhase && v.Standby.ServerVersionNum < alterVersion && u.Plugin != "pgoutput" {
		return blocked(ReasonTwoPhase, "PostgreSQL %d can set it for pgoutput only, the plugin is %s",
			v.Standby.ServerVersionNum/10000, u.Plugin)
	}
	return verdict{}
}

// preparedBefore says what a two_phase slot of 16 or 17 waits for (I-8): a
// transaction that was prepared before the standby's slot had the flag is sent a
// second time, as a new PREPARE, when it commits after a failover; a subscriber
// that has it prepared already then waits for itself for ever. So each of them
// must have ended, and the subscriber must have confirmed that.
func preparedBefore(v *View, l *LocalSlot, u *protocol.SlotState, t Track) verdict {
	if !l.TwoPhase || v.Standby.ServerVersionNum >= alterVersion || t.TwoPhaseClear {
		return verdict{}
	}
	if x, ok := oldestPrepared(v.Upstream.Message, u.Database, t.PreparedUntil); ok {
		return pending(ReasonPrepared, "xid %d, prepared as %q in database %q", x.Xid, x.GID, x.Database)
	}
	if t.PreparedEnd == protocol.InvalidLSN {
		return pending(ReasonPrepared, "the next slot message says what the subscriber has to confirm")
	}
	return pending(ReasonPrepared, "the subscriber has to confirm %v", t.PreparedEnd)
}

// watchPrepared carries on what a track knows of the transactions that were
// prepared before the standby's slot had the flag. They cannot be seen on a
// standby, so slot messages bring them.
func (t Track) watchPrepared(m *protocol.SlotMessage, l *LocalSlot) Track {
	if !l.TwoPhase || l.ConfirmedFlushLSN == protocol.InvalidLSN {
		t.PreparedSince, t.PreparedUntil, t.PreparedGone, t.PreparedEnd, t.TwoPhaseClear = 0, 0, 0, 0, false
		return t
	}
	if t.TwoPhaseClear || m.CaptureLSN < l.ConfirmedFlushLSN {
		return t
	}
	if t.PreparedSince == protocol.InvalidLSN { // the first message from behind the flag: all that is open now may be older
		t.PreparedSince = m.CaptureLSN
		for _, x := range m.PreparedTransactions {
			if x.Database == l.Database {
				t.PreparedUntil = max(t.PreparedUntil, x.Prepared)
			}
		}
	}
	if _, open := oldestPrepared(m, l.Database, t.PreparedUntil); open {
		return t
	}
	switch {
	case t.PreparedGone == 0:
		t.PreparedGone = m.Sequence // the list was read after CaptureLSN: the last of them may have ended in between
	case t.PreparedEnd == protocol.InvalidLSN && m.Sequence != t.PreparedGone:
		t.PreparedEnd = m.CaptureLSN
	}
	t.TwoPhaseClear = t.PreparedEnd != protocol.InvalidLSN && t.Confirmed >= t.PreparedEnd
	return t
}

// oldestPrepared finds the oldest transaction of a database that was prepared no
// later than until.
func oldestPrepared(m *protocol.SlotMessage, database string, until int64) (oldest protocol.PreparedTransaction, ok bool) {
	for _, x := range m.PreparedTransactions {
		if x.Database == database && x.Prepared <= until && (!ok || x.Prepared < oldest.Prepared) {
			oldest, ok = x, true
		}
	}
	return oldest, ok
}

// setTwoPhase sets the flag on a slot that was just copied, in a session of its
// database. The slot does not move.
func setTwoPhase(ctx context.Context, s *sessions, step Step) error {
	if !step.ByOption {
		return alterSlot(ctx, s, step.Database, step.Slot, "TWO_PHASE true")
	}
	conn, err := s.connectReplication(ctx, step.Database)
	if err != nil {
		return fmt.Errorf("connect to set two_phase: %w", err)
	}
	defer closePgConn(conn)
	// The session is given up as soon as it stands: the flag is on disk then.
	err = pglogrepl.StartReplication(ctx, conn, fmt.Sprintf("%q", step.Slot), 0, pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '3'", "publication_names 'slotferry'", "two_phase 'on'"},
	})
	if err != nil {
		return fmt.Errorf("set two_phase: %w", err)
	}
	return nil
}

// alterSlot sets an option of a slot, in a session of its database.
func alterSlot(ctx context.Context, s *sessions, database, slot, option string) error {
	conn, err := s.connectReplication(ctx, database)
	if err != nil {
		return fmt.Errorf("connect to set %s: %w", option, err)
	}
	defer closePgConn(conn)
	if _, err := simpleQuery(ctx, conn, fmt.Sprintf("ALTER_REPLICATION_SLOT %q (%s)", slot, option)); err != nil {
		return fmt.Errorf("set %s: %w", option, err)
	}
	return nil
}

func closePgConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the session is given up either way
}
