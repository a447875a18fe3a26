package statusserver

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// lagging is a document of a helper whose slots lag by so many bytes; one that
// lags by less than none is not there.
func lagging(at time.Time, ready bool, lags ...int) *statusdoc.Document {
	d := &statusdoc.Document{Time: at, Ready: ready, Helper: &decoder.Status{}}
	for i, lag := range lags {
		s := decoder.SlotStatusJSON{Name: fmt.Sprintf("s%d", i), State: decoder.StateReady, Local: 0x1000, Lag: uint64(max(lag, 0))}
		if lag < 0 {
			s.Local, s.State = 0, decoder.StatePending
		}
		d.Helper.Slots = append(d.Helper.Slots, s)
	}
	return d
}

func TestHistoryKeepsTheWorstOfAStep(t *testing.T) {
	var h history
	start := time.Unix(1_700_000_000, 0)
	h.add(lagging(start, true, 5, 70))
	h.add(lagging(start.Add(time.Second), false, 90, -1))
	h.add(lagging(start.Add(2*time.Second), true, 1, 2))
	steps := since(h.newest, &h.steps)
	got := steps[historySteps-1]
	if want := (moment{seen: true, worst: 90, worstOf: slotKey{name: "s0"}, notReady: 1}); got != want {
		t.Errorf("step is %+v, want %+v", got, want)
	}
	if steps[0].seen {
		t.Error("an hour ago is known")
	}
	for name, want := range map[string]int64{"s0": 90, "s1": 70} {
		if line := since(h.newest, h.slots[slotKey{name: name}]); line[historySteps-1] != want || line[0] != noLag {
			t.Errorf("%s: %d now, %d an hour ago, want %d and %d", name, line[historySteps-1], line[0], want, noLag)
		}
	}
}

// TestHistoryHasGaps checks that time in which nobody looked is not drawn.
func TestHistoryHasGaps(t *testing.T) {
	var h history
	start := time.Unix(1_700_000_000, 0)
	h.add(lagging(start, true, 1))
	h.add(lagging(start.Add(5*historyStep), true, 2))
	steps := since(h.newest, &h.steps)
	for i, want := range map[int]int64{1: 2, 2: noLag, 5: noLag, 6: 1, 7: noLag} {
		if got := steps[historySteps-i].worst; got != want {
			t.Errorf("%d steps from the end: lag %d, want %d", i, got, want)
		}
	}
	h.add(lagging(start.Add(-time.Hour), true, 3)) // the clock was set back
	if steps := since(h.newest, &h.steps); steps[historySteps-1].worst != 3 || steps[historySteps-2].seen {
		t.Errorf("after the clock was set back: %+v", steps[historySteps-2:])
	}
}

// TestHistoryIsBounded feeds it slots that come and go, for hours.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	at := time.Unix(1_700_000_000, 0)
	for i := range 3 * historySteps {
		d := lagging(at.Add(time.Duration(i)*historyStep), true, 1, 2)
		d.Helper.Slots[0].Name = fmt.Sprintf("born_%d", i)
		h.add(d)
	}
	if len(h.slots) > historySlots {
		t.Errorf("%d slots are remembered", len(h.slots))
	}
	if h.slots[slotKey{name: "s1"}] == nil {
		t.Error("the slot that is always there is not")
	}
}

// TestHistoryAgainstAllSamples holds the ring against one that forgets nothing.
func TestHistoryAgainstAllSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		at := time.Unix(1_700_000_000, 0)
		worst := map[int64]int64{}
		for range rapid.IntRange(1, 200).Draw(t, "documents") {
			at = at.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "pause")) * time.Second)
			lag := rapid.IntRange(0, 1000).Draw(t, "lag")
			step := at.Unix() / 10
			if old, ok := worst[step]; !ok || int64(lag) > old {
				worst[step] = int64(lag)
			}
			h.add(lagging(at, true, lag))
		}
		now := at.Unix() / 10
		for i, got := range since(h.newest, &h.steps) {
			want, seen := worst[now-historySteps+1+int64(i)]
			if got.seen != seen || seen && got.worst != want {
				t.Fatalf("%d steps ago: %+v, want %d, %v", historySteps-1-i, got, want, seen)
			}
		}
	})
}
