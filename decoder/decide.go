package decoder

import (
	"slices"
	"strings"

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
