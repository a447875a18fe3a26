package decoder

import (
	"fmt"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// verdict is a state with its reason; the zero verdict means nothing is wrong.
type verdict struct {
	state  State
	reason Reason
	detail string
}

func (x verdict) bad() bool { return x.reason != ReasonNone }

func pending(r Reason, format string, args ...any) verdict {
	return verdict{StatePending, r, fmt.Sprintf(format, args...)}
}

func blocked(r Reason, format string, args ...any) verdict {
	return verdict{StateBlocked, r, fmt.Sprintf(format, args...)}
}

// overall says what holds up every slot, whatever its own state.
func overall(v *View) verdict {
	s, up := &v.Standby, &v.Upstream
	switch {
	case s.ServerVersionNum/10000 < 16:
		return blocked(ReasonStandbyVersion, "the standby is PostgreSQL %d", s.ServerVersionNum/10000)
	case !s.InRecovery:
		return blocked(ReasonNotInRecovery, "")
	case s.WALLevel != "logical":
		return blocked(ReasonWALLevel, "wal_level is %s on the standby", s.WALLevel)
	case up.OtherSystem != 0:
		return blocked(ReasonOtherSystem, "upstream %d, standby %d", up.OtherSystem, s.SystemIdentifier)
	case up.NoRelay && up.Message == nil:
		return blocked(ReasonNoRelay, "")
	case up.Message == nil && up.Trouble != ReasonNone:
		return verdict{errorState(up.Trouble), up.Trouble, up.TroubleDetail}
	case up.Message == nil:
		return pending(ReasonNoUpstreamState, "")
	case up.Message.SystemIdentifier != s.SystemIdentifier: // I-6
		return blocked(ReasonOtherSystem, "upstream %d, standby %d", up.Message.SystemIdentifier, s.SystemIdentifier)
	case s.ReceivedTLI == 0 && up.Trouble != ReasonNone:
		return verdict{errorState(up.Trouble), up.Trouble, up.TroubleDetail}
	case s.ReceivedTLI == 0 && !stale(v) && slotMissing(v):
		return blocked(ReasonPhysicalMissing, "primary_slot_name is %q", s.PrimarySlotName)
	case s.ReceivedTLI == 0:
		return pending(ReasonNotStreaming, "")
	case up.Message.TimelineID != s.ReceivedTLI: // I-6
		return pending(ReasonTimelineDiffers, "the relay's server is on timeline %d, the standby receives %d",
			up.Message.TimelineID, s.ReceivedTLI)
	case stale(v) && up.Trouble != ReasonNone:
		return verdict{errorState(up.Trouble), up.Trouble, up.TroubleDetail}
	case stale(v):
		return pending(ReasonUpstreamStale, "last message %s ago", v.Now.Sub(up.Arrived).Round(1e8))
	case s.Replay == protocol.InvalidLSN:
		return pending(ReasonNothingReplayed, "")
	}
	return verdict{}
}

// maxInterval bounds what a relay may announce as its heartbeat interval.
const maxInterval = time.Hour

// slotMissing reports that the upstream has no slot for the standby's
// walreceiver, which therefore cannot stream.
func slotMissing(v *View) bool {
	_, ok := physicalSlot(v)
	return v.Standby.PrimarySlotName != "" && !ok
}

// upstreamReason is the reason for an error on the way to slot messages.
func upstreamReason(code, text string) Reason {
	switch {
	case code == "" && text == "":
		return ReasonNone
	case code == codeUndefinedObject:
		return ReasonPhysicalMissing // START_REPLICATION SLOT names no other object
	case code == codeAuthorization, code == codePassword, code == codePrivilege:
		return ReasonUpstreamRefused
	}
	return ReasonUpstreamUnreachable
}

// stale reports whether slot messages have stopped. Silence never counts as
// "the slot is gone" (I-15); it only ends readiness.
func stale(v *View) bool {
	interval := time.Duration(min(v.Upstream.Message.Interval, maxInterval.Microseconds())) * time.Microsecond
	return v.Now.Sub(v.Upstream.Arrived) > interval*time.Duration(v.Settings.StaleAfter)
}

// feedback says why the standby's needs do not reach the upstream, as far as
// that is the same for every slot (I-3).
func feedback(v *View) verdict {
	s := &v.Standby
	switch {
	case !s.HotStandbyFeedback:
		return blocked(ReasonFeedbackOff, "hot_standby_feedback is off")
	case s.WALReceiverStatusInterval == 0:
		return blocked(ReasonStatusInterval, "wal_receiver_status_interval is 0")
	case s.PrimarySlotName == "":
		return blocked(ReasonNoPhysicalSlot, "primary_slot_name is empty")
	}
	p, ok := physicalSlot(v)
	switch {
	case !ok || p.Temporary:
		return blocked(ReasonPhysicalMissing, "primary_slot_name is %q", s.PrimarySlotName)
	case !p.Active:
		return pending(ReasonPhysicalInactive, "slot %q", s.PrimarySlotName)
	case p.Xmin == 0 && p.CatalogXmin == 0:
		return pending(ReasonFeedbackNotArrived, "slot %q shows no xmin", s.PrimarySlotName)
	}
	return verdict{}
}

// held says why the upstream does not hold back vacuum for this catalog_xmin, or
// may not have done so until now (I-3): its physical slot must show one that is set
// and not newer. A catalog_xmin of 0 is not known yet, and nothing is proven of it.
func held(v *View, catalogXmin uint32) verdict {
	if bad := feedback(v); bad.bad() {
		return bad
	}
	p, _ := physicalSlot(v)
	if p.CatalogXmin == 0 || catalogXmin == 0 || !xidPrecedesOrEquals(p.CatalogXmin, catalogXmin) {
		return pending(ReasonCatalogXminNotHeld, "slot %q holds %d, needed %d", p.Name, p.CatalogXmin, catalogXmin)
	}
	return v.Protection.replayed(v.Standby.Replay)
}

// broken reports whether the latest message shows that protection of this
// catalog_xmin is gone, not merely that it has not been shown yet.
func broken(v *View, catalogXmin uint32) bool {
	if overall(v).bad() {
		return false
	}
	p, ok := physicalSlot(v)
	return !ok || p.CatalogXmin == 0 || !xidPrecedesOrEquals(p.CatalogXmin, catalogXmin)
}

func physicalSlot(v *View) (protocol.PhysicalSlot, bool) {
	for _, p := range v.Upstream.Message.PhysicalSlots {
		if p.Name == v.Standby.PrimarySlotName {
			return p, true
		}
	}
	return protocol.PhysicalSlot{}, false
}

// carryTracks carries the tracks on with what this view shows of the standby's
// slots: whether they are protected (I-3), and whether somebody has moved them
// (I-4).
func carryTracks(v *View) map[string]Track {
	tracks := make(map[string]Track, len(v.Tracks))
	unknown := overall(v).bad()
	for name, t := range v.Tracks {
		row, owned := v.Owned[name]
		l, exists := v.Standby.Slot(name)
		switch {
		case !exists || !owned || row.Released || !row.describes(&l):
			t.ProvenBy, t.Distrusted, t.Consumed, t.Remade = "", false, false, false
			t = t.watchPrepared(nil, &LocalSlot{})
		case !unknown:
			t = t.onTimeline(&v.Standby).protect(v, &l).watchPrepared(v.Upstream.Message, &l)
			t.Consumed = t.Confirmed != protocol.InvalidLSN && l.ConfirmedFlushLSN > t.Confirmed &&
				!t.coversAhead(l.ConfirmedFlushLSN)
			t.Remade = t.Remade && (t.Consumed || t.Confirmed == protocol.InvalidLSN)
		}
		tracks[name] = t.watchOthers(v, name, row, owned, &l, exists)
	}
	return tracks
}

// protect notes what the latest message shows of the protection of the
// standby's slot. Under another primary_slot_name nothing has been shown yet.
func (t Track) protect(v *View, l *LocalSlot) Track {
	if t.ProvenBy != v.Standby.PrimarySlotName {
		t.ProvenBy = ""
	}
	switch {
	case !held(v, l.CatalogXmin).bad():
		t.ProvenBy = v.Standby.PrimarySlotName
	case t.ProvenBy != "" && broken(v, l.CatalogXmin):
		t.Distrusted = true
	}
	return t
}
