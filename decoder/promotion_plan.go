package decoder

import (
	"slices"
	"strings"
)

// PromotionView is what the end of a promotion is decided on.
type PromotionView struct {
	Standby  Standby // as it is now, out of recovery
	Timeline uint32  // the new timeline
	History  History // of the new timeline; nil when it could not be read
	Owned    map[string]LedgerRow
	Tracks   map[string]Track

	RestoreFailover bool // put failover back where the upstream's slot had it
}

// failoverVersion is the first version whose slots have failover.
const failoverVersion = 170000

// PlanPromotion says what to do with each slot of the ledger after a promotion
// (I-7). Nothing that is ready is dropped. What could lose rows in silence is:
// its subscriber then gets "replication slot does not exist".
func PlanPromotion(v *PromotionView) PromotionReport {
	report := PromotionReport{TimelineID: v.Timeline, SwitchLSN: v.History.LastSwitch()}
	for name, row := range v.Owned {
		if row.Released {
			continue
		}
		l, exists := v.Standby.Slot(name)
		report.Slots = append(report.Slots, planPromotionSlot(v, row, &l, exists, v.Tracks[name]))
	}
	slices.SortFunc(report.Slots, func(a, b PromotionSlot) int { return strings.Compare(a.Name, b.Name) })
	return report
}

func planPromotionSlot(v *PromotionView, row LedgerRow, l *LocalSlot, exists bool, t Track) PromotionSlot {
	p := PromotionSlot{Name: row.Name, Database: row.Database, Plugin: row.Plugin, Last: t.Confirmed, Action: PromotionDrop}
	if !exists || !row.describes(l) {
		p.Action, p.Reason = PromotionMissing, ReasonNotOnUpstream
		if exists {
			p.Reason = ReasonNameClash // not ours, so it is left alone
		}
		return p
	}
	p.Local = l.ConfirmedFlushLSN
	switch {
	case l.ConfirmedFlushLSN == 0, l.RestartLSN == 0:
		p.Reason = ReasonBeingRebuilt
		return p
	case l.InvalidationReason != "":
		p.Reason = invalidated(l.InvalidationReason)
		return p
	case t.Distrusted:
		p.Reason = ReasonDistrusted
		return p
	case row.TwoPhase != l.TwoPhase: // I-8: half made
		p.Reason = ReasonTwoPhase
		return p
	case l.TwoPhase && !t.TwoPhaseClear && v.Standby.ServerVersionNum < alterVersion:
		p.Reason = ReasonPrepared
		return p
	case t.Consumed && t.Remade:
		p.Reason = ReasonBeingRebuilt
		return p
	case t.Consumed: // seen in recovery: whoever uses it now, it was not its subscriber who moved it
		p.Reason = ReasonConsumedOnStandby
		return p
	case row.Intent == IntentDrop: // for a reason that nobody knows any more
		p.Reason = ReasonBeingRebuilt
		return p
	case t.Confirmed != 0 && l.ConfirmedFlushLSN > t.Confirmed && !v.withHistory(t).coversAhead(l.ConfirmedFlushLSN):
		// The subscriber itself may already be here and have moved its slot: one that
		// is in use is its, whoever moved it, and one past the switch was moved after
		// it, when there was nobody else to move it. This helper may be late by days.
		if !l.Active && l.ConfirmedFlushLSN <= v.History.LastSwitch() {
			p.Reason = ReasonConsumedOnStandby
			return p
		}
	}
	if x := judgeFound(row, l); x.bad() { // made by somebody who may know better
		p.Action, p.Reason = PromotionKeep, x.reason
		return p
	}
	p.Usable, p.Action = true, PromotionKeep
	p.Failover = v.RestoreFailover && t.Failover && v.Standby.ServerVersionNum >= failoverVersion
	end, known := v.History.SwitchFrom(t.TimelineID)
	if !known {
		return p // U is of a history that this server never was on
	}
	if confirmed := t.everConfirmed(); confirmed > end {
		p.Ahead = &SubscriberAhead{From: end, To: confirmed}
	}
	p.Target = min(t.Confirmed, end) // I-5: never past what was replayed of U's own timeline
	if p.Target > l.ConfirmedFlushLSN {
		if t.Heard { // the ledger's U may be of an earlier incarnation of the slot
			p.Action = PromotionAdvance
		}
		p.DuplicateBytes = uint64(p.Target - l.ConfirmedFlushLSN)
	}
	return p
}

// withHistory returns the track with High cut off where this server left the
// timeline that it was confirmed on (I-6).
func (v *PromotionView) withHistory(t Track) Track {
	if end, known := v.History.SwitchFrom(t.HighTimelineID); known {
		t.High = min(t.High, end)
	}
	return t
}
