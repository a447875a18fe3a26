package decoder

import "github.com/slotferry/slotferry/protocol"

// judgeOwned judges a slot on the standby that the ledger says is the helper's.
func judgeOwned(v *View, u *protocol.SlotState, l *LocalSlot, row LedgerRow, t Track) (verdict, Step) {
	switch {
	case !row.describes(l): // I-9, I-10
		return blocked(ReasonNameClash, "not the slot the ledger describes"), Step{Kind: StepForget, Why: ReasonNameClash}
	case l.Plugin == u.Plugin && l.Database != u.Database && (t.DatabaseSince == 0 || v.Standby.Replay < t.DatabaseSince):
		return pending(ReasonWALNotReplayed, "database %q may have been renamed to %q", l.Database, u.Database), Step{}
	case l.Database != u.Database || l.Plugin != u.Plugin:
		return drop(pending(ReasonBeingRebuilt, "made again upstream for database %q and plugin %q", u.Database, u.Plugin))
	case l.InvalidationReason != "":
		return drop(pending(invalidated(l.InvalidationReason), "%s on the standby", l.InvalidationReason))
	case row.Intent == IntentDrop, l.ConfirmedFlushLSN == 0, l.RestartLSN == 0:
		return drop(pending(ReasonBeingRebuilt, "half made"))
	case u.InvalidationReason != "": // I-15
		return drop(blocked(ReasonUpstreamInvalidated, "%s", u.InvalidationReason))
	case u.TwoPhase != l.TwoPhase: // I-8: half made, or changed upstream
		return drop(pending(ReasonBeingRebuilt, "two_phase is %t upstream and %t here", u.TwoPhase, l.TwoPhase))
	case u.ConfirmedFlushLSN == 0: // I-14: a new incarnation
		return drop(pending(ReasonBeingCreated, ""))
	case l.ConfirmedFlushLSN > u.ConfirmedFlushLSN && t.HighTimelineID != v.Standby.ReceivedTLI: // I-6
		return historyNotRead(v), Step{}
	case l.ConfirmedFlushLSN > u.ConfirmedFlushLSN && t.coversAhead(l.ConfirmedFlushLSN): // I-14
		return pending(ReasonAheadAfterCrash, "%d bytes", l.ConfirmedFlushLSN-u.ConfirmedFlushLSN), Step{}
	case l.ConfirmedFlushLSN > u.ConfirmedFlushLSN && t.Remade: // I-14
		return drop(pending(ReasonBeingRebuilt, "made again upstream, at %v", u.ConfirmedFlushLSN))
	case l.ConfirmedFlushLSN > u.ConfirmedFlushLSN: // I-4
		return drop(pending(ReasonConsumedOnStandby, "%d bytes past the subscriber", l.ConfirmedFlushLSN-u.ConfirmedFlushLSN))
	}
	protection := held(v, l.CatalogXmin)
	if t.Distrusted { // I-3
		if !protection.bad() && anchorUsable(v) {
			return drop(pending(ReasonDistrusted, ""))
		}
		if x := feedback(v); x.bad() {
			return x, Step{} // what is to be done about it, not what will follow
		}
		return pending(ReasonDistrusted, ""), Step{}
	}
	step := planAdvance(v, u, l, t)
	if row.Intent == IntentCopy { // killed between the copy and the row: settle the row before the slot moves
		step = Step{Kind: StepAdopt}
	}
	switch {
	case protection.reason == ReasonWALNotReplayed: // held now, so it may move on meanwhile
		return protection, step
	case protection.bad():
		return protection, Step{}
	case !upstreamReady(v, u):
		return pending(ReasonUpstreamNotReady, "%s upstream", u.Readiness), Step{}
	}
	if x := judgePlugin(v, u); x.bad() { // what can be moved, and not be read
		return x, step
	}
	if x := judgeFound(row, l); x.bad() {
		return x, step
	}
	if x := preparedBefore(v, l, u, t); x.bad() { // I-8
		return x, step
	}
	return verdict{state: StateReady}, step
}

func drop(x verdict) (verdict, Step) { return x, Step{Kind: StepDrop, Why: x.reason} }
