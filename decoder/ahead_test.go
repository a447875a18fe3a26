package decoder

import (
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// TestSubscriberAhead: what the subscriber has confirmed and the standby has not
// received. Exactly equal is not ahead.
func TestSubscriberAhead(t *testing.T) {
	view := func(change func(*View)) *View {
		v := &View{Upstream: Upstream{Message: &protocol.SlotMessage{TimelineID: 2}}}
		v.Standby.InRecovery, v.Standby.ReceivedTLI, v.Standby.Receive, v.Standby.Replay = true, 2, 0x2000, 0x1000
		if change != nil {
			change(v)
		}
		return v
	}
	for _, test := range []struct {
		name   string
		u      protocol.LSN
		change func(*View)
		want   protocol.LSN
	}{
		{"received, not replayed", 0x1800, nil, 0},
		{"exactly what was received", 0x2000, nil, 0},
		{"one byte more", 0x2001, nil, 1},
		{"in creation", protocol.InvalidLSN, nil, 0},
		{"the walreceiver is gone", 0x2400, func(v *View) { v.Standby.ReceivedTLI = 0 }, 0x400},
		{"from an archive alone", 0x2400, func(v *View) { v.Standby.ReceivedTLI, v.Standby.Receive = 0, 0 }, 0x1400},
		{"nothing known of the standby", 0x2400, func(v *View) { v.Standby.Receive, v.Standby.Replay = 0, 0 }, 0},
		{"the message is of another timeline", 0x2400, func(v *View) { v.Upstream.Message.TimelineID = 1 }, 0},
		{"a primary", 0x2400, func(v *View) { v.Standby.InRecovery = false }, 0},
	} {
		u := &protocol.SlotState{Name: "orders", ConfirmedFlushLSN: test.u}
		if got := describe(view(test.change), u, LocalSlot{}, false).Ahead; got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
		// It does not matter whether the slot is here.
		got := describe(view(test.change), u, LocalSlot{SlotState: protocol.SlotState{ConfirmedFlushLSN: 0x800}}, true).json(viewNow).Ahead
		if got != uint64(test.want) {
			t.Errorf("%s, with a slot: %d, want %d", test.name, got, test.want)
		}
	}
}
