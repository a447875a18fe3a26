package decoder

import (
	"fmt"
	"slices"

	"github.com/slotferry/slotferry/protocol"
)

// decideAnchor says what to do with the anchor. While slots are copied from it,
// or are about to be, it stays where it is: a copy has the position it was
// decided on.
func decideAnchor(v *View, top verdict, copies int) AnchorStep {
	a := &v.Anchor
	switch {
	case top.reason == ReasonNotInRecovery:
		if a.Phase != AnchorNone {
			return AnchorStep{Kind: AnchorClose, Why: ReasonNotInRecovery} // I-7
		}
		return AnchorStep{Why: top.reason}
	case top.bad():
		return AnchorStep{Why: top.reason, Detail: top.detail}
	}
	switch a.Phase {
	case AnchorNone:
		return decideAnchorCreate(v)
	case AnchorCreating:
		if v.Now.Sub(a.Started) > v.Settings.CreateDeadline && !worthWaiting(v) {
			return AnchorStep{Kind: AnchorClose, Why: whyNoAnchor(v).reason}
		}
		return AnchorStep{}
	case AnchorLive:
		if copies > 0 {
			return AnchorStep{}
		}
		if a.Proven && a.ProvenBy == protectionNow(v) && broken(v, a.CatalogXmin) { // I-3: what is copied from it could miss catalog rows
			return AnchorStep{Kind: AnchorClose, Why: ReasonDistrusted}
		}
		return decideAnchorAdvance(v)
	}
	return AnchorStep{}
}

// worthWaiting says whether a creation past its deadline waits for a transaction
// of the upstream. Begun anew it would wait for the same one, and for those that
// have begun since. The WAL it keeps meanwhile is within the budget.
func worthWaiting(v *View) bool {
	l, _ := v.Standby.Slot(v.Anchor.Name)
	if end := max(v.Standby.Receive, v.Standby.Replay); end > l.RestartLSN+v.Settings.AnchorBudget {
		return false
	}
	m := v.Upstream.Message
	return len(m.PreparedTransactions) > 0 || slices.ContainsFunc(m.OpenTransactions, func(x protocol.OpenTransaction) bool {
		return v.Now.Sub(protocol.Time(x.XactStart)) > v.Settings.CreateDeadline/4
	})
}

// decideAnchorCreate waits until feedback has been proven to reach the upstream.
// A creation before that can be overtaken by pruning on the upstream, which ends
// it or, were it done by SQL, would stop replay.
func decideAnchorCreate(v *View) AnchorStep {
	if x := feedback(v); x.bad() {
		return AnchorStep{Why: x.reason, Detail: x.detail}
	}
	if v.Now.Before(v.Anchor.RetryAt) {
		return AnchorStep{Why: v.Anchor.LastError, Detail: v.Anchor.LastDetail}
	}
	return AnchorStep{Kind: AnchorCreate}
}

// decideAnchorAdvance moves the anchor on behind the slots it serves. Its
// position never passes what a slot born after the message could be behind:
// CaptureLSN, the restart_lsn of a slot in creation, and R.
func decideAnchorAdvance(v *View) AnchorStep {
	a := &v.Anchor
	if v.Now.Sub(a.LastAdvance) < v.Settings.AnchorInterval {
		return AnchorStep{}
	}
	limit := min(v.Upstream.Message.CaptureLSN, v.Standby.Replay, a.Position+v.Settings.MaxStep)
	var floor protocol.LSN // below it no slot is waited for any more
	if end := max(v.Standby.Receive, v.Standby.Replay); end > v.Settings.AnchorBudget {
		floor = end - v.Settings.AnchorBudget
	}
	var behind []string
	target := limit
	for i := range v.Upstream.Message.Slots {
		u := &v.Upstream.Message.Slots[i]
		if u.InvalidationReason != "" || judgeTwoPhase(v, u).bad() || reserved(u.Name) {
			continue
		}
		need := u.ConfirmedFlushLSN
		if need == protocol.InvalidLSN {
			target = min(target, u.RestartLSN) // in creation: its U is not known, but not below this
			continue
		}
		if need >= limit {
			continue
		}
		if a.Position < floor && need < floor {
			if _, exists := v.Standby.Slot(u.Name); !exists {
				behind = append(behind, u.Name)
			}
			continue
		}
		target = min(target, need)
	}
	if target <= a.Position {
		return AnchorStep{}
	}
	slices.Sort(behind)
	return AnchorStep{Kind: AnchorAdvance, Target: target, Behind: behind}
}

// anchorProven carries on whether the anchor's catalog_xmin is held upstream, and by
// what.
func anchorProven(v *View, top verdict) (bool, Protection) {
	a := &v.Anchor
	switch {
	case a.Phase != AnchorLive && a.Phase != AnchorMoving:
		return false, Protection{}
	case top.bad(), a.Proven && a.ProvenBy == protectionNow(v):
		return a.Proven, a.ProvenBy
	case held(v, a.CatalogXmin).bad():
		return false, Protection{}
	}
	return true, protectionNow(v)
}

func anchorUsable(v *View) bool {
	return v.Anchor.Phase == AnchorLive && !held(v, v.Anchor.CatalogXmin).bad()
}

// whyNoAnchor says what the anchor waits for, and names the transaction if it is
// one that has been open since before the creation began.
func whyNoAnchor(v *View) verdict {
	if v.Anchor.Phase != AnchorCreating {
		if x := feedback(v); x.bad() {
			return x
		}
		if v.Anchor.LastError != ReasonNone {
			return verdict{errorState(v.Anchor.LastError), v.Anchor.LastError, v.Anchor.LastDetail}
		}
		return pending(ReasonNoAnchor, "")
	}
	if v.Anchor.LastError != ReasonNone && v.Now.Sub(v.Anchor.Started) < lookInterval {
		return verdict{errorState(v.Anchor.LastError), v.Anchor.LastError, v.Anchor.LastDetail} // tried again, not known yet
	}
	started := protocol.Micros(v.Anchor.Started)
	blocker, since := "", int64(0)
	for _, x := range v.Upstream.Message.PreparedTransactions {
		if blocker == "" || x.Prepared < since {
			blocker, since = fmt.Sprintf("xid %d, prepared as %q in database %q", x.Xid, x.GID, x.Database), x.Prepared
		}
	}
	for _, x := range v.Upstream.Message.OpenTransactions {
		if x.XactStart < started && (blocker == "" || x.XactStart < since) {
			blocker, since = fmt.Sprintf("xid %d of pid %d in database %q", x.Xid, x.PID, x.Database), x.XactStart
		}
	}
	if blocker == "" {
		return pending(ReasonWaitingRunningXact, "")
	}
	return pending(ReasonWaitingTransaction, "%s", blocker)
}
