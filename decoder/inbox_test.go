package decoder

import (
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

func TestInbox(t *testing.T) {
	msg := func(epoch, sequence uint64, capture protocol.LSN, captured int64) *protocol.SlotMessage {
		return &protocol.SlotMessage{
			Epoch: epoch, Sequence: sequence, SystemIdentifier: 1, TimelineID: 1, PostmasterStartTime: 1,
			CaptureLSN: capture, CaptureTime: captured,
		}
	}
	otherLife := func(m *protocol.SlotMessage) *protocol.SlotMessage { m.PostmasterStartTime = 2; return m }
	otherTimeline := func(m *protocol.SlotMessage) *protocol.SlotMessage { m.TimelineID = 2; return m }

	for _, tc := range []struct {
		name string
		put  []*protocol.SlotMessage
		want int // index of the one that is newest in the end
	}{
		{"in order", []*protocol.SlotMessage{msg(1, 1, 10, 1), msg(1, 2, 10, 2), msg(1, 3, 20, 3)}, 2},
		{"the same twice", []*protocol.SlotMessage{msg(1, 1, 10, 1), msg(1, 1, 10, 1)}, 0},
		{"late", []*protocol.SlotMessage{msg(1, 2, 20, 2), msg(1, 1, 10, 1)}, 0},
		{"losses only delay", []*protocol.SlotMessage{msg(1, 1, 10, 1), msg(1, 9, 20, 9)}, 1},
		{"relay restarted", []*protocol.SlotMessage{msg(1, 9, 10, 1), msg(2, 1, 20, 2)}, 1},
		{"relay restarted, nothing written since", []*protocol.SlotMessage{msg(1, 9, 10, 1), msg(2, 1, 10, 2)}, 1},
		{"replayed after a relay's restart", []*protocol.SlotMessage{msg(1, 9, 10, 1), msg(2, 1, 20, 2), msg(1, 9, 10, 1)}, 1},
		{"late of the relay before", []*protocol.SlotMessage{msg(1, 8, 10, 1), msg(2, 1, 20, 3), msg(1, 9, 15, 2)}, 1},
		{"late, nothing written", []*protocol.SlotMessage{msg(1, 8, 10, 1), msg(2, 1, 10, 3), msg(1, 9, 10, 2)}, 1},
		{"two relays take turns", []*protocol.SlotMessage{msg(1, 8, 10, 1), msg(2, 1, 20, 2), msg(1, 9, 30, 3)}, 2},
		{"two relays, replayed", []*protocol.SlotMessage{msg(1, 8, 10, 1), msg(2, 5, 20, 2), msg(1, 9, 30, 3), msg(2, 4, 40, 4)}, 2},
		{"other relay has an older view", []*protocol.SlotMessage{msg(1, 8, 20, 2), msg(2, 1, 10, 1)}, 0},
		{"upstream restarted", []*protocol.SlotMessage{msg(1, 8, 20, 2), otherLife(msg(2, 1, 10, 3))}, 1},
		{"late, of the upstream's life before", []*protocol.SlotMessage{msg(1, 8, 20, 2), otherLife(msg(2, 1, 10, 4)), msg(1, 9, 25, 3)}, 1},
		{"upstream changed timeline", []*protocol.SlotMessage{msg(1, 8, 20, 2), otherTimeline(msg(2, 1, 10, 3))}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newInbox()
			for i, m := range tc.put {
				b.put(m, viewNow.Add(time.Duration(i)))
			}
			got := b.get()
			if got.Message != tc.put[tc.want] {
				t.Errorf("got epoch %d sequence %d, want message %d", got.Message.Epoch, got.Message.Sequence, tc.want)
			}
			if want := viewNow.Add(time.Duration(tc.want)); !got.Arrived.Equal(want) {
				t.Errorf("arrived at %v, want %v: a refused message is no sign of life", got.Arrived, want)
			}
		})
	}
}

func TestInboxForgetsOldEpochs(t *testing.T) {
	b := newInbox()
	for i := range uint64(3 * maxEpochs) {
		m := &protocol.SlotMessage{Epoch: i, Sequence: 1, CaptureLSN: protocol.LSN(i)}
		b.put(m, viewNow)
		if b.get().Message != m {
			t.Fatalf("message of epoch %d is not taken", i)
		}
	}
	if got := len(b.epochs); got != maxEpochs {
		t.Errorf("remembers %d epochs, want %d", got, maxEpochs)
	}
}

func TestInboxNoRelay(t *testing.T) {
	b := newInbox()
	b.noRelay()
	if !b.get().NoRelay {
		t.Error("no relay is not noted")
	}
	<-b.wake
	b.noRelay()
	select {
	case <-b.wake:
		t.Error("woken for nothing new")
	default:
	}
	b.put(&protocol.SlotMessage{Epoch: 1, Sequence: 1}, viewNow)
	if b.get().NoRelay {
		t.Error("a message has arrived, and there is no relay still")
	}
	<-b.wake
}
