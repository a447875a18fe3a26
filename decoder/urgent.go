package decoder

import (
	"slices"

	"github.com/slotferry/slotferry/protocol"
)

// asksForLook says whether what has come in is to be looked at now. That the way to
// the upstream is broken, or whole again, is: a promotion may be next, and is seen the
// sooner where the missing walreceiver has been seen before.
func (h *Helper) asksForLook(up Upstream) bool {
	return up.Message == nil || h.ledger == nil || up.Trouble != h.trouble ||
		urgent(h.seen, up.Message, h.ready, h.anchor.Proven)
}

// urgent says whether a slot message asks for a look at once. One that only moves
// the positions of ready slots does not: they are known from then on, and the next
// look is soon enough to advance. So the cost of looking does not grow with how
// often subscribers confirm.
//
// old is the message of the last look, ready the slots that were ready then, and
// settled whether the anchor was protected.
func urgent(old, m *protocol.SlotMessage, ready map[string]bool, settled bool) bool {
	if old == nil || old.TimelineID != m.TimelineID || old.SystemIdentifier != m.SystemIdentifier ||
		old.PostmasterStartTime != m.PostmasterStartTime || old.InRecovery != m.InRecovery ||
		len(old.Slots) != len(m.Slots) {
		return true
	}
	waiting := !settled
	for i := range m.Slots {
		u := m.Slots[i]
		w := &old.Slots[i] // both are sorted by name
		if !ready[u.Name] {
			waiting = true
			if u != *w {
				return true
			}
			continue
		}
		if u.ConfirmedFlushLSN < w.ConfirmedFlushLSN {
			return true
		}
		was := *w
		was.ConfirmedFlushLSN, was.RestartLSN, was.CatalogXmin = u.ConfirmedFlushLSN, u.RestartLSN, u.CatalogXmin
		was.Active, was.InactiveSince, was.WALStatus = u.Active, u.InactiveSince, u.WALStatus
		if u != was {
			return true
		}
	}
	return waiting && !slices.EqualFunc(old.PhysicalSlots, m.PhysicalSlots, func(p, q protocol.PhysicalSlot) bool {
		p.RestartLSN = q.RestartLSN
		return p == q
	})
}
