package decoder

import (
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// TestObserve is I-14: what a position that goes back means.
func TestObserve(t *testing.T) {
	type said struct {
		confirmed  protocol.LSN
		postmaster int64
		timeline   uint32
	}
	for _, tc := range []struct {
		name            string
		said            []said
		confirmed, high protocol.LSN
		highTLI         uint32
		proven          string
	}{
		{"first", []said{{0x50, 1, 1}}, 0x50, 0x50, 1, ""},
		{"moves on", []said{{0x50, 1, 1}, {0x60, 1, 1}}, 0x60, 0x60, 1, "p"},
		{"stays", []said{{0x50, 1, 1}, {0x50, 1, 1}}, 0x50, 0x50, 1, "p"},
		{"back in the same life: another slot", []said{{0x50, 1, 1}, {0x40, 1, 1}}, 0x40, 0x40, 1, "p"},
		{"back after a restart: a crash", []said{{0x50, 1, 1}, {0x40, 2, 1}}, 0x40, 0x50, 1, ""},
		{"back after two crashes", []said{{0x50, 1, 1}, {0x40, 2, 1}, {0x30, 3, 1}}, 0x30, 0x50, 1, ""},
		{"crash, then forward", []said{{0x50, 1, 1}, {0x40, 2, 1}, {0x45, 2, 1}}, 0x45, 0x50, 1, "p"},
		{"crash, then past it", []said{{0x50, 1, 1}, {0x40, 2, 1}, {0x55, 2, 1}}, 0x55, 0x55, 1, "p"},
		{"crash, then another slot", []said{{0x50, 1, 1}, {0x40, 2, 1}, {0x35, 2, 1}}, 0x35, 0x35, 1, "p"},
		{"back on a new timeline", []said{{0x50, 1, 1}, {0x40, 1, 2}}, 0x40, 0x50, 1, ""},
		{"forward on a new timeline", []said{{0x50, 1, 1}, {0x60, 1, 2}}, 0x60, 0x60, 2, ""},
		{"in creation", []said{{0, 1, 1}}, 0, 0, 1, ""},
		{"in creation, then born", []said{{0, 1, 1}, {0x50, 1, 1}}, 0x50, 0x50, 1, "p"},
		{"made again, seen in creation", []said{{0x50, 1, 1}, {0, 1, 1}, {0x60, 1, 1}}, 0x60, 0x60, 1, "p"},
		{"made again after a restart", []said{{0x50, 1, 1}, {0, 2, 1}, {0x60, 2, 1}}, 0x60, 0x60, 1, "p"},
	} {
		track := Track{}
		for i, s := range tc.said {
			if i > 0 {
				track.ProvenBy = "p"
			}
			m := protocol.SlotMessage{PostmasterStartTime: s.postmaster, TimelineID: s.timeline}
			track = track.Observe(&m, &protocol.SlotState{ConfirmedFlushLSN: s.confirmed})
		}
		if track.Confirmed != tc.confirmed || track.High != tc.high || track.HighTimelineID != tc.highTLI {
			t.Errorf("%s: confirmed %v, high %v on timeline %d, want %v, %v on %d", tc.name, track.Confirmed, track.High,
				track.HighTimelineID, tc.confirmed, tc.high, tc.highTLI)
		}
		if track.ProvenBy != tc.proven {
			t.Errorf("%s: proven by %q, want %q", tc.name, track.ProvenBy, tc.proven)
		}
	}
}

// TestObserveKeepsWhatIsKnownOfTheStandbysSlot: that the upstream's slot is another
// heals nothing here.
func TestObserveKeepsWhatIsKnownOfTheStandbysSlot(t *testing.T) {
	track := Track{
		Confirmed: 0x50, High: 0x50, PostmasterStart: 1, TimelineID: 1, Distrusted: true, LastAdvance: viewNow,
		RetryAt: viewNow, LastError: ReasonError, Cost: 7,
	}
	m := protocol.SlotMessage{PostmasterStartTime: 1, TimelineID: 1}
	got := track.Observe(&m, &protocol.SlotState{ConfirmedFlushLSN: 0x40})
	want := track
	want.Confirmed, want.High, want.HighTimelineID, want.Heard, want.Remade = 0x40, 0x40, 1, true, true
	if got != want {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestCoversAhead(t *testing.T) {
	track := Track{Confirmed: 0x40, High: 0x50}
	for _, tc := range []struct {
		local protocol.LSN
		want  bool
	}{{0x41, true}, {0x50, true}, {0x51, false}} {
		if got := track.coversAhead(tc.local); got != tc.want {
			t.Errorf("coversAhead(%v) = %v, want %v", tc.local, got, tc.want)
		}
	}
	if (Track{Confirmed: 0x50, High: 0x50}).coversAhead(0x50) {
		t.Error("nothing is ahead of U when U is as high as ever")
	}
}
