package decoder

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slotferry/slotferry/protocol"
)

// Decide looks at a view and says what state every slot is in and what to do
// now. It is pure. Steps are independent of each other: one slot's trouble
// never keeps another's step back (I-11).
func Decide(v *View) Decision {
	now := *v
	now.Protection = carryProtection(v)
	v = &now
	d := Decision{Tracks: carryTracks(v), AnchorProven: v.Anchor.Proven, ProvenBy: v.Anchor.ProvenBy, Protection: v.Protection}
	top := overall(v)
	d.Overall, d.Detail = top.reason, top.detail
	if v.Upstream.Message != nil {
		for i := range v.Upstream.Message.Slots {
			u := &v.Upstream.Message.Slots[i]
			if reserved(u.Name) {
				continue
			}
			st, step := judge(v, top, d.Tracks, u)
			d.Slots = append(d.Slots, st)
			if step.Kind != "" && mayStep(v, d.Tracks, step) {
				d.Steps = append(d.Steps, step)
			}
		}
	}
	for i := range d.Slots {
		if l, ok := v.Standby.Slot(d.Slots[i].Name); ok && d.Slots[i].State == StateReady && l.RestartLSN < l.ConfirmedFlushLSN {
			d.Reread = max(d.Reread, l.ConfirmedFlushLSN-l.RestartLSN)
		}
	}
	d.CascadeWaits = slices.ContainsFunc(v.Standby.Slots, func(l LocalSlot) bool {
		return l.Physical && l.Active && l.Xmin != 0 && l.CatalogXmin == 0 // feedback comes, but of no logical slot yet
	})
	d.FoundWaits = slices.ContainsFunc(d.Slots, func(s SlotStatus) bool { return s.Reason == ReasonFound })
	gone, steps := judgeGone(v, top, d.Tracks)
	d.Slots = append(d.Slots, gone...)
	d.Steps = append(d.Steps, steps...)
	d.Steps = append(d.Steps, planTouches(v, d.Tracks, d.Steps)...)
	slices.SortFunc(d.Slots, func(a, b SlotStatus) int { return strings.Compare(a.Name, b.Name) })

	copies := v.Anchor.Copies
	for _, s := range d.Steps {
		if s.Kind == StepCopy {
			copies++
		}
	}
	d.Anchor = decideAnchor(v, top, copies)
	d.AnchorProven, d.ProvenBy = anchorProven(v, top)
	d.NeedSnapshot = v.Anchor.Phase == AnchorCreating || d.Anchor.Kind == AnchorCreate
	return d
}

// reserved reports whether a name is an anchor's: that of an upstream that is a
// standby itself is never ferried.
func reserved(name string) bool { return strings.HasPrefix(name, anchorPrefix) }

// mayStep holds a step back while another step of the same slot is under way
// or while an error of the slot cools down.
func mayStep(v *View, tracks map[string]Track, s Step) bool {
	return !v.Busy[s.Slot] && !v.Now.Before(tracks[s.Slot].RetryAt)
}

// judge says the state of one upstream slot, and the step it needs.
func judge(v *View, top verdict, tracks map[string]Track, u *protocol.SlotState) (SlotStatus, Step) {
	row, owned := v.Owned[u.Name]
	local, exists := v.Standby.Slot(u.Name)
	st := describe(v, u, local, exists)
	st.Exists = exists && owned && !row.Released

	var x verdict
	var step Step
	switch {
	case exists && local.Synced, v.Standby.SyncReplicationSlots && u.Failover && !v.Upstream.Message.InRecovery: // I-16
		x = blocked(ReasonSlotSync, "")
		switch {
		case st.Exists && row.describes(&local):
			step = Step{Kind: StepDrop, Why: ReasonSlotSync}
		case exists && !local.Synced:
			x.detail = "the standby has a slot of this name that is not synced, which stops that worker: drop it there"
		}
	case top.bad():
		x = top
	case judgeOthers(tracks[u.Name]).bad():
		if x = judgeOthers(tracks[u.Name]); owned && !row.Released {
			step = Step{Kind: StepForget, Why: x.reason}
		}
	case exists && (!owned || row.Released):
		x, step = judgeForeign(v, u, &local, row, owned)
	case exists:
		x, step = judgeOwned(v, u, &local, row, tracks[u.Name])
	default:
		x, step = judgeMissing(v, u)
		if step.Kind == "" && owned && row.Intent != IntentCopy {
			step = Step{Kind: StepForget} // whatever is made under this name from now on is not the helper's
		}
	}
	if top.bad() {
		step = Step{} // nothing is done on a state that is stale, or of another history
	}
	if !top.bad() {
		x = withError(v, x, tracks[u.Name])
	}
	st.State, st.Reason, st.Detail = x.state, x.reason, x.detail
	if st.Reason == ReasonSubscriberBehind {
		st.Missing = v.Anchor.Position - u.ConfirmedFlushLSN
	}
	if step.Kind != "" {
		step.Slot, step.Database, step.Plugin = u.Name, u.Database, u.Plugin
		step.Upstream, step.Timeline = u.ConfirmedFlushLSN, v.Upstream.Message.TimelineID
	}
	if step.Kind == StepDrop { // in the database it is in, whatever the upstream's is in now
		step.Database, step.Plugin = local.Database, local.Plugin
	}
	return st, step
}

// withError lets an error of the slot's last step explain what else would read as
// work in progress. A ready slot stays ready: what failed was an advance.
func withError(v *View, x verdict, t Track) verdict {
	switch {
	case t.LastError == ReasonNone:
	case x.ready():
		x.detail = t.LastDetail
	case v.Now.Before(t.RetryAt), x.reason == ReasonBeingMade:
		x = verdict{errorState(t.LastError), t.LastError, t.LastDetail}
	}
	return x
}

func (x verdict) ready() bool { return x.state == StateReady }

// errorState says whether an error passes by itself.
func errorState(r Reason) State {
	switch r {
	case ReasonSlotsExhausted, ReasonPluginMissing, ReasonDatabaseRefused, ReasonPrivilege, ReasonLedger, ReasonWALLevel,
		ReasonPhysicalMissing, ReasonUpstreamRefused:
		return StateBlocked
	}
	return StatePending
}

func describe(v *View, u *protocol.SlotState, local LocalSlot, exists bool) SlotStatus {
	st := SlotStatus{Name: u.Name, Database: u.Database, Plugin: u.Plugin, Upstream: u.ConfirmedFlushLSN, Ahead: subscriberAhead(v, u)}
	if !exists {
		return st
	}
	st.Local, st.Active = local.ConfirmedFlushLSN, local.Active
	if st.Local != protocol.InvalidLSN && u.ConfirmedFlushLSN > st.Local {
		st.Lag = u.ConfirmedFlushLSN - st.Local
	}
	if end := max(v.Standby.Receive, v.Standby.Replay); local.RestartLSN != protocol.InvalidLSN && end > local.RestartLSN {
		st.Retained = end - local.RestartLSN
	}
	return st
}

// subscriberAhead is how much WAL the subscriber has confirmed that the standby has
// not received: promoted now, it would lack what the subscriber has (I-7). U was read
// before the standby was looked at, so this is never too much. Positions of different
// timelines say nothing of each other; without a walreceiver the last one counts.
func subscriberAhead(v *View, u *protocol.SlotState) protocol.LSN {
	s := &v.Standby
	end := max(s.Receive, s.Replay)
	if !s.InRecovery || end == protocol.InvalidLSN || u.ConfirmedFlushLSN <= end ||
		s.ReceivedTLI != 0 && s.ReceivedTLI != v.Upstream.Message.TimelineID {
		return 0
	}
	return u.ConfirmedFlushLSN - end
}

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

// judgeMissing judges an upstream slot that the standby does not have.
func judgeMissing(v *View, u *protocol.SlotState) (verdict, Step) {
	switch {
	case u.InvalidationReason != "":
		return blocked(ReasonUpstreamInvalidated, "%s", u.InvalidationReason), Step{}
	case !utf8.ValidString(u.Database):
		return blocked(ReasonError, "the name of database %q is not UTF-8: its slots are not made", u.Database), Step{}
	case judgeTwoPhase(v, u).bad(): // I-8
		return judgeTwoPhase(v, u), Step{}
	case judgePlugin(v, u).bad():
		return judgePlugin(v, u), Step{}
	case u.ConfirmedFlushLSN == 0:
		return pending(ReasonBeingCreated, ""), Step{}
	case v.Anchor.Phase != AnchorLive && v.Anchor.Phase != AnchorMoving:
		return whyNoAnchor(v), Step{}
	case u.ConfirmedFlushLSN < v.Anchor.Position: // I-2
		return pending(ReasonSubscriberBehind, "%d bytes, up to %v", v.Anchor.Position-u.ConfirmedFlushLSN, v.Anchor.Position), Step{}
	case v.Standby.Replay < v.Anchor.Position: // I-0
		return pending(ReasonWALNotReplayed, "%v replayed, %v needed", v.Standby.Replay, v.Anchor.Position), Step{}
	}
	if x := held(v, v.Anchor.CatalogXmin); x.bad() { // I-3
		return x, Step{}
	}
	if !upstreamReady(v, u) {
		return pending(ReasonUpstreamNotReady, "%s upstream", u.Readiness), Step{}
	}
	if v.Anchor.Phase == AnchorMoving {
		return pending(ReasonBeingMade, "the anchor is being advanced"), Step{}
	}
	return pending(ReasonBeingMade, ""), Step{
		Kind: StepCopy, Target: v.Anchor.Position, TwoPhase: u.TwoPhase,
		ByOption: u.TwoPhase && v.Standby.ServerVersionNum < alterVersion,
	}
}

// judgePlugin says that the standby does not load the slot's output plugin for
// anybody; the zero verdict when it does, as far as a setting tells.
func judgePlugin(v *View, u *protocol.SlotState) verdict {
	if v.Standby.OutputPlugins == nil || slices.Contains(v.Standby.OutputPlugins, u.Plugin) {
		return verdict{}
	}
	return blocked(ReasonPluginNotListed, "output_plugin_libraries does not list %s on the standby", u.Plugin)
}

// upstreamReady says whether the upstream's own slot allows ours to be ready.
// Behind a standby readiness is handed on, never upgraded; a slot that
// PostgreSQL's own worker keeps there is persistent only once it is sync-ready.
func upstreamReady(v *View, u *protocol.SlotState) bool {
	return !v.Upstream.Message.InRecovery || u.Readiness == protocol.ReadinessReady || u.Synced
}
