package decoder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/slotcatalog"
	"github.com/slotferry/slotferry/protocol"
)

// Bounds of single steps.
const (
	copyTimeout  = 10 * time.Second
	dropTimeout  = 10 * time.Second
	gateTimeout  = 10 * time.Second // of an advance: until its session stands and R is known
	closeTimeout = time.Second
	maxPatience  = 4 * time.Hour // of one advance call
)

// errTooSlow means that an advance call did not end in the time it was given. How
// far it had come is lost: a call reads the WAL from restart_lsn to its target, and a
// transaction that was open for long holds restart_lsn back.
var errTooSlow = errors.New("it has to read more WAL than it was given time for")

// errNotNow means that the gate of a step was shut: the standby is no longer in
// the state that the step was decided on. The next look decides anew.
var errNotNow = errors.New("the standby's state has changed")

// gateQuery reads, in the backend that is about to act, what I-0 and I-5 demand:
// in recovery, R, and the timeline that is received. A target at or below this R
// stays right even if the server is promoted in the next microsecond, because
// what has been replayed is part of every later history of this server.
const gateQuery = `
SELECT pg_catalog.pg_is_in_recovery(),
       coalesce(pg_catalog.pg_last_wal_replay_lsn(), '0/0')::text,
       coalesce((SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver), 0)`

// gate returns R, or errNotNow when the step must not be taken. Timeline 0 stands
// for any.
func gate(ctx context.Context, conn *pgx.Conn, timeline uint32) (protocol.LSN, error) {
	var inRecovery bool
	var text string
	var tli int64
	if err := conn.QueryRow(ctx, gateQuery).Scan(&inRecovery, &text, &tli); err != nil {
		return 0, fmt.Errorf("read replay position: %w", err)
	}
	replay, err := protocol.ParseLSN(text)
	switch {
	case err != nil:
		return 0, err
	case !inRecovery || replay == protocol.InvalidLSN || timeline != 0 && uint32(tli) != timeline:
		return 0, errNotNow
	}
	return replay, nil
}

// copySlot makes the slot of a StepCopy from the anchor, atomically and only
// through an open gate (I-0). What came out is checked against what was meant;
// a slot that is not that is dropped again.
func copySlot(ctx context.Context, s *sessions, anchor string, step Step) (protocol.LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	var born protocol.LSN
	err := s.with(ctx, step.Database, func(conn *pgx.Conn) error {
		replay, err := gate(ctx, conn, step.Timeline)
		if err != nil {
			return err
		}
		if replay < step.Target || step.Upstream < step.Target {
			return errNotNow
		}
		_, err = conn.Exec(ctx, `SELECT pg_catalog.pg_copy_logical_replication_slot($1, $2, false, $3)`,
			anchor, step.Slot, step.Plugin)
		if err != nil {
			return err
		}
		if step.TwoPhase {
			err = setTwoPhase(ctx, s, step)
		}
		if err == nil {
			born, err = verifyCopy(ctx, conn, step)
		}
		if err != nil {
			err = errors.Join(err, dropCopy(ctx, conn, step.Slot))
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("copy anchor to slot %q: %w", step.Slot, err)
	}
	return born, nil
}

// verifyCopy checks name, database, plugin and position of a fresh copy: the
// server binds it to the session's database and to the source's position.
func verifyCopy(ctx context.Context, conn *pgx.Conn, step Step) (protocol.LSN, error) {
	slots, err := slotcatalog.ReadNamed(ctx, conn, step.Slot)
	if err != nil {
		return 0, err
	}
	if len(slots) != 1 {
		return 0, fmt.Errorf("it is not there: %w", errNotNow)
	}
	l := &slots[0]
	if l.Database != step.Database || l.Plugin != step.Plugin || l.TwoPhase != step.TwoPhase ||
		l.ConfirmedFlushLSN == 0 || l.ConfirmedFlushLSN > step.Upstream {
		return 0, fmt.Errorf("it came out %s, two_phase %t, at %v, where %s, two_phase %t, at %v at most was meant", identity(l), l.TwoPhase,
			l.ConfirmedFlushLSN, identity(&LocalSlot{SlotState: protocol.SlotState{Database: step.Database, Plugin: step.Plugin}}),
			step.TwoPhase, step.Upstream)
	}
	return l.ConfirmedFlushLSN, nil
}

// dropCopy takes a copy back that is not what it was meant to be. What stays
// because of an error is half made, and dropped as such later.
func dropCopy(ctx context.Context, conn *pgx.Conn, slot string) error {
	_, err := conn.Exec(ctx, `SELECT pg_catalog.pg_drop_replication_slot($1)`, slot)
	if err != nil && sqlState(err) != codeUndefinedObject {
		return fmt.Errorf("drop the copy: %w", err)
	}
	return nil
}

// advanceSlot moves a slot by a decoding session whose output the server throws
// away, and returns where it came to: the server stops at R and calls that
// success, so only the returned position is believed.
func advanceSlot(ctx context.Context, s *sessions, step Step, patience time.Duration) (protocol.LSN, error) {
	preparing, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	var reached protocol.LSN
	err := s.with(preparing, step.Database, func(conn *pgx.Conn) error {
		replay, err := gate(preparing, conn, step.Timeline)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		reached, err = advance(ctx, conn, step.Slot, min(step.Target, replay)) // I-5
		return tooSlow(ctx, err)
	})
	if err != nil {
		return 0, fmt.Errorf("advance slot %q to %v: %w", step.Slot, step.Target, err)
	}
	return reached, nil
}

// tooSlow marks the error of an advance call whose time was over.
func tooSlow(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errTooSlow, err)
	}
	return err
}

// morePatience is how long an advance call may take after one that was given so
// much was too slow. Each begins where the one before began, so only a longer one
// can get further; what it holds up meanwhile is watched (watchReplay).
func morePatience(last time.Duration) time.Duration { return min(2*last, maxPatience) }

func advance(ctx context.Context, conn *pgx.Conn, slot string, target protocol.LSN) (protocol.LSN, error) {
	var end string
	err := conn.QueryRow(ctx, `SELECT end_lsn::text FROM pg_catalog.pg_replication_slot_advance($1, $2::text::pg_lsn)`,
		slot, target.String()).Scan(&end)
	if err != nil {
		return 0, err
	}
	return protocol.ParseLSN(end)
}

// dropSlot drops a slot from a session of its database, while in recovery on
// the step's timeline. A slot that is not there is fine (I-10).
func dropSlot(ctx context.Context, s *sessions, step Step, gated bool) error {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	err := s.with(ctx, step.Database, func(conn *pgx.Conn) error {
		if gated {
			if _, err := gate(ctx, conn, step.Timeline); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, `SELECT pg_catalog.pg_drop_replication_slot(slot_name)
			FROM pg_catalog.pg_replication_slots WHERE slot_name = $1 AND slot_type = 'logical' AND database = $2`,
			step.Slot, step.Database)
		return err
	})
	if err != nil && sqlState(err) != codeUndefinedObject {
		return fmt.Errorf("drop slot %q: %w", step.Slot, err)
	}
	return nil
}

// SQLSTATEs the helper decides by. Texts are for people, and change.
const (
	codeUndefinedObject  = "42704"
	codeObjectInUse      = "55006"
	codeNotPrerequisite  = "55000"
	codeConfigLimit      = "53400"
	codeDuplicateObject  = "42710"
	codePrivilege        = "42501"
	codeUndefinedFile    = "58P01"
	codeAuthorization    = "28000"
	codePassword         = "28P01"
	codeCannotConnectNow = "57P03"
)

func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// A step that fails is tried again soon, and ever less often while the reason
// stays the same: each try writes an error into the server's log.
const (
	firstRetry = 2 * time.Second
	lastRetry  = 30 * time.Second
)

// retryWait is the pause before the next try, after a pause of last and a
// failure for the same reason or another.
func retryWait(last time.Duration, same bool) time.Duration {
	if !same || last == 0 {
		return firstRetry
	}
	return min(2*last, lastRetry)
}

// classify turns an error of a step into a reason.
func classify(err error) Reason {
	code := sqlState(err)
	var refused *pgconn.ConnectError
	if errors.As(err, &refused) && code != "" && code != codeCannotConnectNow {
		return ReasonDatabaseRefused
	}
	switch code {
	case codeConfigLimit:
		return ReasonSlotsExhausted
	case codeUndefinedFile:
		return ReasonPluginMissing
	case codePrivilege:
		return ReasonPrivilege
	case codeDuplicateObject:
		return ReasonNameClash
	}
	switch {
	case errors.Is(err, errNotNow):
		return ReasonNone
	case errors.Is(err, errLedger):
		return ReasonLedger
	}
	return ReasonError
}

// errLedger is the cause of an error that kept a step from being written down.
var errLedger = errors.New("the ledger cannot be written")
