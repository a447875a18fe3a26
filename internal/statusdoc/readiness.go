package statusdoc

import (
	"fmt"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/relay"
)

// The reasons of this package. Those of slots and of the helper are
// decoder.Reason.
const (
	ReasonNotRunning          = "not_running"
	ReasonNotAccepting        = "not_accepting"
	ReasonSlotSourceConnected = "slot_source_not_connected"
	ReasonNoSlotMessage       = "no_slot_message"
	ReasonStatusStale         = "status_stale"
)

// statusStale is the age from which a helper's status counts as that of a helper
// that is stuck. It looks at its standby each second, and gives a look up after
// five.
const statusStale = 15 * time.Second

// judgeRelay says what keeps a relay from being ready: it must accept.
func judgeRelay(r *relay.Status) []NotReady {
	if r == nil || len(r.Listen) > 0 {
		return nil
	}
	return []NotReady{{Part: "relay", Reason: ReasonNotAccepting, Detail: "no listen address is open"}}
}

// judgeSource says what keeps a slot source from being ready: it must have read
// slots, and be able to read them again.
func judgeSource(s *relay.SlotSourceStatus) []NotReady {
	switch {
	case s == nil:
	case !s.Connected:
		return []NotReady{{
			Part: "slot_source", Reason: ReasonSlotSourceConnected, Detail: s.Error,
			Hint: orElse(s.Hint, "Check the server in --slots (or --upstream), its pg_hba.conf and the password file."),
		}}
	case s.LastMessage.IsZero():
		return []NotReady{{
			Part: "slot_source", Reason: ReasonNoSlotMessage, Detail: s.Error,
			Hint: orElse(s.Hint, "Clears when the upstream's slots have been read for the first time."),
		}}
	}
	return nil
}

// judgeHelper says what keeps a helper from being ready: it must serve a
// standby, know fresh upstream state, and have every slot ready; without slots, the
// anchor that the first one will be made from.
func judgeHelper(h *decoder.Status, now time.Time) []NotReady {
	if h == nil {
		return nil
	}
	if age := now.Sub(h.Time); !h.Time.IsZero() && age > statusStale {
		return []NotReady{{
			Part: "helper", Reason: ReasonStatusStale, Detail: fmt.Sprintf("last look at the standby %s ago", age.Round(time.Second)),
			Hint: "The helper is stuck. Restart it: slots on the standby stay as they are.",
		}}
	}
	var list []NotReady
	switch {
	case h.Reason != decoder.ReasonNone:
		list = append(list, NotReady{Part: "helper", Reason: string(h.Reason), Detail: h.Detail, Hint: orElse(h.Hint, h.Reason.Hint())})
	case h.Role != decoder.RoleStandby:
		r := decoder.ReasonNotInRecovery
		list = append(list, NotReady{Part: "helper", Reason: string(r), Hint: r.Hint()})
	case !h.Upstream.Fresh:
		r := decoder.ReasonUpstreamStale
		list = append(list, NotReady{Part: "helper", Reason: string(r), Hint: r.Hint()})
	}
	if len(h.Slots) == 0 && len(list) == 0 {
		list = judgeAnchor(&h.Anchor)
	}
	for i := range h.Slots {
		s := &h.Slots[i]
		if s.State != decoder.StateReady {
			list = append(list, NotReady{
				Part: "slot", Slot: s.Name, Reason: string(s.Reason), Detail: s.Detail, Hint: orElse(s.Hint, s.Reason.Hint()),
			})
		}
	}
	return list
}

// judgeAnchor says what keeps a helper without slots from being ready. Slots that
// are ready do not need the anchor any more; where there are none it is all that
// stands between the first slot's birth and its protection.
func judgeAnchor(a *decoder.AnchorStatus) []NotReady {
	if a.Phase == decoder.AnchorLive.String() || a.Phase == decoder.AnchorMoving.String() {
		return nil
	}
	r := a.Reason
	if r == decoder.ReasonNone {
		r = decoder.ReasonNoAnchor
	}
	return []NotReady{{Part: "anchor", Reason: string(r), Detail: a.Detail, Hint: r.Hint()}}
}

// MessageAge is how old the newest slot message is at the time of the document,
// in seconds; -1 when there is none.
func (d *Document) MessageAge() float64 {
	if d.Helper == nil || d.Helper.Upstream.MessageAge < 0 {
		return -1
	}
	return d.Helper.Upstream.MessageAge + max(d.Time.Sub(d.Helper.Time), 0).Seconds()
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
