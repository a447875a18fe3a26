package decoder

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// Other programs keep slots on a standby, too: pg_failover_slots moves every slot
// that has an upstream namesake and drops every other, Patroni drops each one that
// is not in its configuration. Two of them on one slot undo each other's work for
// ever, and the slot is there only sometimes. So after a few times the helper lets
// go, says so, and looks again later.
const (
	othersLimit  = 3                // times that a slot of ours was dropped or moved by somebody else
	othersWindow = 10 * time.Minute // each within so much of the one before; and the pause after that
)

// watchOthers notes what somebody else has done to a slot of ours between two
// looks. While a step is under way nothing can be told.
func (t Track) watchOthers(v *View, name string, row LedgerRow, owned bool, l *LocalSlot, exists bool) Track {
	if t.Disturbed > 0 && v.Now.Sub(t.DisturbedAt) > othersWindow {
		t.Disturbed, t.DisturbedAt, t.Disturbance = 0, time.Time{}, ""
	}
	if v.Busy[name] {
		return t
	}
	if !owned || row.Released || row.Intent != IntentNone {
		t.Left = protocol.InvalidLSN
		return t
	}
	ours := exists && row.describes(l)
	what := ""
	switch {
	case t.Left == protocol.InvalidLSN: // not seen before, or a step of ours failed halfway
	case !ours:
		what = "dropped"
	case l.ConfirmedFlushLSN > t.Left:
		what = "moved"
	}
	t.Left = protocol.InvalidLSN
	if ours {
		t.Left = l.ConfirmedFlushLSN
	}
	if what == "" {
		return t
	}
	t.Disturbed, t.DisturbedAt, t.Disturbance = t.Disturbed+1, v.Now, what
	if row.Found && what == "moved" {
		t.Disturbed = max(t.Disturbed, othersLimit) // it was there before us, and is that program's
	}
	return t
}

// judgeFound says what a slot still lacks that was there before the helper and was
// adopted. One whose file was copied from the primary, as Patroni does, has no
// saved snapshot at its restart_lsn and skips the transactions that were running
// there. Once a restart_lsn has moved on this server, decoding was consistent here
// when it moved (LogicalIncreaseRestartDecodingForSlot, logical.c).
func judgeFound(row LedgerRow, l *LocalSlot) verdict {
	if !row.Found || l.RestartLSN > row.BornLSN {
		return verdict{}
	}
	return pending(ReasonFound, "restart_lsn is %v", l.RestartLSN)
}

// judgeOthers says that a slot is left to another program; the zero verdict when it
// is not.
func judgeOthers(t Track) verdict {
	if t.Disturbed < othersLimit {
		return verdict{}
	}
	return blocked(ReasonOtherManager, "%s on the standby, and not by the helper, %d times", t.Disturbance, t.Disturbed)
}
