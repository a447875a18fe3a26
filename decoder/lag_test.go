package decoder

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotferry/slotferry/protocol"
)

func TestLagClock(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var c lagClock
	for i, look := range []struct {
		second          int
		upstream, local protocol.LSN
		want            time.Duration
	}{
		{0, 0x100, 0x100, 0},                // level
		{1, 0x200, 0x100, 0},                // the subscriber has just moved on
		{5, 0x300, 0x100, 4 * time.Second},  // and again
		{9, 0x300, 0x150, 8 * time.Second},  // an advance that passes nothing
		{10, 0x300, 0x200, 5 * time.Second}, // one that passes the first mark
		{11, 0x300, 0x300, 0},               // level again
		{12, 0x400, 0x300, 0},               //
		{15, 0x350, 0x300, 0},               // it fell back: what was seen is of another life
		{17, 0x350, 0x300, 2 * time.Second}, //
		{18, 0x350, 0, 0},                   // not on the standby any more
		{19, 0, 0x300, 0},                   // nor upstream
	} {
		now := start.Add(time.Duration(look.second) * time.Second)
		if got := c.read(now, look.upstream, look.local); got != look.want {
			t.Errorf("look %d, upstream %v, local %v: lag %v, want %v", i, look.upstream, look.local, got, look.want)
		}
	}
}

// TestLagClockAgainstAllMarks holds the clock against one that forgets nothing:
// it never says more, and less only by what was forgotten.
func TestLagClockAgainstAllMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var c lagClock
		var all []lagMark
		upstream, local := protocol.LSN(100), protocol.LSN(100)
		for range rapid.IntRange(1, 400).Draw(t, "looks") {
			now = now.Add(time.Second)
			upstream += protocol.LSN(rapid.IntRange(0, 3).Draw(t, "confirmed"))
			if rapid.IntRange(0, 40).Draw(t, "advanced") == 0 {
				local += (upstream - local) / 2
			}
			all = append(all, lagMark{now, upstream})
			var want time.Duration
			for _, m := range all {
				if m.upstream > local {
					want = now.Sub(m.at)
					break
				}
			}
			got := c.read(now, upstream, local)
			if got > want || want-got > want/4+time.Second || len(c.marks) > maxLagMarks {
				t.Fatalf("lag %v with %d marks, want %v", got, len(c.marks), want)
			}
		}
	})
}
