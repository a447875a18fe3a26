package decoder

import "github.com/slotferry/slotferry/protocol"

// judgeForeign judges a slot of the same name that is not the helper's: it was
// the node's own while it was a primary, or somebody made it (I-9). It may be
// adopted if it would be ready, and lies on the history that is now followed.
func judgeForeign(v *View, u *protocol.SlotState, l *LocalSlot, row LedgerRow, recorded bool) (verdict, Step) {
	if l.Physical || l.Temporary || l.Database != u.Database || l.Plugin != u.Plugin {
		return blocked(ReasonNameClash, "the standby's is %s", identity(l)), Step{}
	}
	// A slot that the ledger recorded while this node was the primary belonged to
	// the same subscriber: one that cannot be used any more may be replaced.
	replace := func(x verdict) (verdict, Step) {
		if recorded && l.Database == row.Database && l.Plugin == row.Plugin {
			return drop(pending(x.reason, "%s", x.detail))
		}
		return x, Step{}
	}
	switch {
	case u.TwoPhase != l.TwoPhase: // I-8
		return replace(blocked(ReasonTwoPhase, "two_phase is %t upstream and %t here", u.TwoPhase, l.TwoPhase))
	case u.InvalidationReason != "":
		return blocked(ReasonUpstreamInvalidated, "%s", u.InvalidationReason), Step{}
	case l.InvalidationReason != "":
		return replace(blocked(ReasonNameClash, "the standby's is invalid: %s", l.InvalidationReason))
	case l.Active:
		return blocked(ReasonNameClash, "the standby's is in use by pid %d", l.ActivePID), Step{}
	case l.ConfirmedFlushLSN == 0 || l.RestartLSN == 0:
		return blocked(ReasonNameClash, "the standby's is still being created"), Step{}
	case u.ConfirmedFlushLSN == 0:
		return pending(ReasonBeingCreated, ""), Step{}
	case recorded && v.Standby.ReceivedTLI > 1 && v.Standby.HistoryTLI != v.Standby.ReceivedTLI:
		return historyNotRead(v), Step{}
	}
	if x := offHistory(&v.Standby, row, l); x.bad() {
		return replace(x)
	}
	switch {
	case l.ConfirmedFlushLSN > u.ConfirmedFlushLSN:
		return pending(ReasonAheadOfUpstream, "%d bytes", l.ConfirmedFlushLSN-u.ConfirmedFlushLSN), Step{}
	}
	if x := held(v, l.CatalogXmin); x.bad() {
		return x, Step{}
	}
	if !upstreamReady(v, u) {
		return pending(ReasonUpstreamNotReady, "%s upstream", u.Readiness), Step{}
	}
	return pending(ReasonBeingMade, "being adopted"), Step{Kind: StepAdopt}
}

// offHistory says why a slot that was this node's own lies beyond where the history
// that is now followed left the node's; the zero verdict when it does not. The row
// knows which timeline the node was the primary of.
//
// Of a slot without a row nobody knows on which timeline it came to where it is:
// most likely on the one that is received, behind every switch. The server follows
// this history, so no WAL of it lies on another; whether the slot decodes from there
// without a gap is for judgeFound.
func offHistory(s *Standby, row LedgerRow, l *LocalSlot) verdict {
	from := row.PrimaryTimelineID
	if from == 0 {
		from = s.History.lastTimeline()
	}
	if s.ReceivedTLI <= 1 || row.Name == "" {
		return verdict{}
	}
	end, ok := s.History.Holds(from, s.ReceivedTLI, l.ConfirmedFlushLSN)
	switch {
	case ok:
		return verdict{}
	case end == protocol.InvalidLSN:
		return blocked(ReasonOffHistory, "at %v on timeline %d, which timeline %d does not come from", l.ConfirmedFlushLSN, from, s.ReceivedTLI)
	}
	return blocked(ReasonOffHistory, "at %v, timeline %d was left at %v", l.ConfirmedFlushLSN, from, end)
}

func historyNotRead(v *View) verdict {
	return pending(ReasonTimelineDiffers, "the history of timeline %d is not read yet", v.Standby.ReceivedTLI)
}

func identity(l *LocalSlot) string {
	switch {
	case l.Physical:
		return "a physical slot"
	case l.Temporary:
		return "a temporary slot"
	}
	return "for database " + l.Database + " and plugin " + l.Plugin
}
