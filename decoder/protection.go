package decoder

import (
	"fmt"

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
	case up.Message == nil:
		return pending(ReasonNoUpstreamState, "")
	case up.Message.SystemIdentifier != s.SystemIdentifier: // I-6
		return blocked(ReasonOtherSystem, "upstream %d, standby %d", up.Message.SystemIdentifier, s.SystemIdentifier)
	case s.ReceivedTLI == 0:
		return pending(ReasonNotStreaming, "")
	case up.Message.TimelineID != s.ReceivedTLI: // I-6
		return pending(ReasonTimelineDiffers, "the relay's server is on timeline %d, the standby receives %d",
			up.Message.TimelineID, s.ReceivedTLI)
	case stale(v):
		return pending(ReasonUpstreamStale, "last message %s ago", v.Now.Sub(up.Arrived).Round(1e8))
	case s.Replay == protocol.InvalidLSN:
		return pending(ReasonNothingReplayed, "")
	}
	return verdict{}
}

// stale reports whether slot messages have stopped. Silence never counts as
// "the slot is gone" (I-15); it only ends readiness.
func stale(v *View) bool {
	limit := protocol.LSN(v.Upstream.Message.Interval) * protocol.LSN(v.Settings.StaleAfter)
	return v.Now.Sub(v.Upstream.Arrived).Microseconds() > int64(limit)
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

// held says why the upstream does not hold back vacuum for this catalog_xmin
// (I-3): its physical slot must show one that is set and not newer.
func held(v *View, catalogXmin uint32) verdict {
	if bad := feedback(v); bad.bad() {
		return bad
	}
	p, _ := physicalSlot(v)
	if p.CatalogXmin == 0 || !xidPrecedesOrEquals(p.CatalogXmin, catalogXmin) {
		return pending(ReasonCatalogXminNotHeld, "slot %q holds %d, needed %d", p.Name, p.CatalogXmin, catalogXmin)
	}
	return verdict{}
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
