package decoder

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// planAdvance decides whether a ready slot is moved now, and how far. It never
// plans past U, past R, or backwards (I-4).
//
// How far a slot lags endangers nobody: READY does not depend on it, and a
// promotion ends with one more advance. So the pace follows the cost: every call
// reads the WAL from restart_lsn again.
func planAdvance(v *View, u *protocol.SlotState, l *LocalSlot, t Track) Step {
	interval := advanceInterval(v)
	if end := max(v.Standby.Receive, v.Standby.Replay); end > l.RestartLSN+v.Settings.RetainBudget {
		interval = v.Settings.AdvanceInterval // a full disk is worse than a busy core
	}
	if l.Active || v.Now.Sub(t.LastAdvance) < interval {
		return Step{}
	}
	target := min(u.ConfirmedFlushLSN, v.Standby.Replay, l.ConfirmedFlushLSN+v.Settings.MaxStep)
	switch {
	case target > l.ConfirmedFlushLSN:
		return Step{Kind: StepAdvance, Target: target}
	case touchDue(v, l) && l.ConfirmedFlushLSN <= v.Standby.Replay:
		// An advance to where it is resets inactive_since.
		return Step{Kind: StepAdvance, Target: l.ConfirmedFlushLSN}
	}
	return Step{}
}

// advanceInterval is how long every slot waits between two advances, so that all
// of them together stay within AdvanceShare of a core.
func advanceInterval(v *View) time.Duration {
	var sum time.Duration
	for _, t := range v.Tracks {
		sum += t.Cost
	}
	interval := v.Settings.AdvanceInterval
	if v.Settings.AdvanceShare > 0 {
		interval = max(interval, time.Duration(float64(sum)/v.Settings.AdvanceShare))
	}
	return interval
}

// touchDue says whether PostgreSQL 18 would soon invalidate an idle slot
// (idle_replication_slot_timeout).
func touchDue(v *View, l *LocalSlot) bool {
	return v.Standby.IdleSlotTimeout > 0 && l.InactiveSince != 0 &&
		v.Now.Sub(protocol.Time(l.InactiveSince)) > v.Standby.IdleSlotTimeout/3
}
