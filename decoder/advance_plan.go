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
	if target := min(u.ConfirmedFlushLSN, v.Standby.Replay, l.ConfirmedFlushLSN+v.Settings.MaxStep); target > l.ConfirmedFlushLSN {
		return Step{Kind: StepAdvance, Target: target}
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

// planTouches keeps slots of the helper's from being invalidated as idle: an advance
// to where a slot is resets inactive_since. That needs nothing of the upstream, so it
// is done whatever holds a slot up, on any timeline, and whatever the pace; taken
// has the slots that have a step already, which counts as use or ends the slot.
func planTouches(v *View, tracks map[string]Track, taken []Step) []Step {
	if v.Standby.IdleSlotTimeout == 0 || !v.Standby.InRecovery {
		return nil
	}
	busy := make(map[string]bool, len(taken))
	for _, s := range taken {
		busy[s.Slot] = true
	}
	var steps []Step
	for i := range v.Standby.Slots { // by name
		l := &v.Standby.Slots[i]
		row, owned := v.Owned[l.Name]
		if !owned || row.Released || !row.describes(l) || row.Intent == IntentDrop || busy[l.Name] || !touchDue(v, l) {
			continue
		}
		s := Step{Kind: StepAdvance, Slot: l.Name, Database: l.Database, Plugin: l.Plugin, Target: l.ConfirmedFlushLSN}
		if mayStep(v, tracks, s) {
			steps = append(steps, s)
		}
	}
	return steps
}

// touchDue says whether PostgreSQL 18 would soon invalidate a slot that is idle
// (idle_replication_slot_timeout), and it can be touched.
func touchDue(v *View, l *LocalSlot) bool {
	return !l.Active && l.InvalidationReason == "" && l.RestartLSN != protocol.InvalidLSN &&
		l.ConfirmedFlushLSN != protocol.InvalidLSN && l.ConfirmedFlushLSN <= v.Standby.Replay && l.InactiveSince != 0 &&
		v.Now.Sub(protocol.Time(l.InactiveSince)) > v.Standby.IdleSlotTimeout/3
}
