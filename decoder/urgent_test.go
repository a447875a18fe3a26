package decoder

import (
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

func TestUrgent(t *testing.T) {
	base := func() *protocol.SlotMessage {
		return &protocol.SlotMessage{
			SystemIdentifier: 1, TimelineID: 1, PostmasterStartTime: 1,
			Slots: []protocol.SlotState{
				{Name: "behind", Plugin: "pgoutput", ConfirmedFlushLSN: 50},
				{Name: "ready", Plugin: "pgoutput", ConfirmedFlushLSN: 100},
			},
			PhysicalSlots: []protocol.PhysicalSlot{{Name: "b", Active: true, RestartLSN: 1, CatalogXmin: 700}},
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*protocol.SlotMessage)
		settled bool
		want    bool
	}{
		{"nothing moved", func(*protocol.SlotMessage) {}, true, false},
		{"a ready slot moved on", func(m *protocol.SlotMessage) { m.Slots[1].ConfirmedFlushLSN = 200 }, true, false},
		{"a ready slot came in use", func(m *protocol.SlotMessage) { m.Slots[1].Active = true }, true, false},
		{"a ready slot went back", func(m *protocol.SlotMessage) { m.Slots[1].ConfirmedFlushLSN = 99 }, true, true},
		{"a ready slot was invalidated", func(m *protocol.SlotMessage) { m.Slots[1].InvalidationReason = "wal_removed" }, true, true},
		{"a ready slot has another plugin", func(m *protocol.SlotMessage) { m.Slots[1].Plugin = "test_decoding" }, true, true},
		{"a slot that waits moved", func(m *protocol.SlotMessage) { m.Slots[0].ConfirmedFlushLSN = 60 }, true, true},
		{"a slot was born", func(m *protocol.SlotMessage) { m.Slots = append(m.Slots, protocol.SlotState{Name: "z"}) }, true, true},
		{"a slot has gone", func(m *protocol.SlotMessage) { m.Slots = m.Slots[1:] }, true, true},
		{"a slot was replaced", func(m *protocol.SlotMessage) { m.Slots[1].Name = "zz" }, true, true},
		{"another timeline", func(m *protocol.SlotMessage) { m.TimelineID = 2 }, true, true},
		{"the upstream restarted", func(m *protocol.SlotMessage) { m.PostmasterStartTime = 2 }, true, true},
		{"feedback moved while a slot waits", func(m *protocol.SlotMessage) { m.PhysicalSlots[0].CatalogXmin = 701 }, true, true},
		{"a standby flushed", func(m *protocol.SlotMessage) { m.PhysicalSlots[0].RestartLSN = 2 }, true, false},
	} {
		m := base()
		tt.change(m)
		if got := urgent(base(), m, map[string]bool{"ready": true}, tt.settled); got != tt.want {
			t.Errorf("%s: urgent is %v, want %v", tt.name, got, tt.want)
		}
	}
	if !urgent(nil, base(), nil, true) {
		t.Error("the first message is not urgent")
	}
}

// A message that only moves positions waits for the next look. Trouble on the way to
// the upstream does not, once, and neither does its end.
func TestTroubleAsksForALookOnce(t *testing.T) {
	m := &protocol.SlotMessage{Slots: []protocol.SlotState{{Name: "s", ConfirmedFlushLSN: 5}}}
	h := &Helper{ledger: &Ledger{}, seen: m, ready: map[string]bool{"s": true}, anchor: Anchor{Proven: true}}
	for i, step := range []struct {
		trouble Reason
		want    bool
	}{{ReasonNone, false}, {ReasonUpstreamUnreachable, true}, {ReasonUpstreamUnreachable, false}, {ReasonNone, true}, {ReasonNone, false}} {
		if got := h.asksForLook(Upstream{Message: m, Trouble: step.trouble}); got != step.want {
			t.Errorf("%d, trouble %q: asks for a look = %t, want %t", i, step.trouble, got, step.want)
		}
		h.trouble = step.trouble // as the look knows it
	}
}
