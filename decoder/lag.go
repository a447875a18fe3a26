package decoder

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// maxLagMarks bounds what is remembered of one slot. With more, every second one
// is forgotten: a lag of two hours is then known to a few minutes.
const maxLagMarks = 64

// lagClock tells how long ago the subscriber passed the position that a slot has
// on the standby. WAL has no clock of its own here: what is known is when each
// position of the upstream's slot was first seen.
type lagClock struct{ marks []lagMark } // the upstream's positions beyond the standby's, both rising

type lagMark struct {
	at       time.Time
	upstream protocol.LSN
}

// read takes in a look at both positions and returns the lag, 0 when there is
// none. It is never more than was seen: a lag that a helper finds at its start
// counts from there.
func (c *lagClock) read(now time.Time, upstream, local protocol.LSN) time.Duration {
	n := len(c.marks)
	switch {
	case local == protocol.InvalidLSN || upstream <= local:
		c.marks = c.marks[:0]
		return 0
	case n > 0 && c.marks[n-1].upstream > upstream: // it fell back: another incarnation, or a crash
		c.marks = append(c.marks[:0], lagMark{now, upstream})
	case n == 0 || c.marks[n-1].upstream < upstream:
		c.marks = append(c.marks, lagMark{now, upstream})
	}
	passed := 0
	for c.marks[passed].upstream <= local { // the last one is upstream > local
		passed++
	}
	c.marks = append(c.marks[:0], c.marks[passed:]...)
	if len(c.marks) > maxLagMarks {
		c.thin()
	}
	return now.Sub(c.marks[0].at)
}

// thin forgets every second mark but for the first and the last. What is asked
// for between two marks is then told too late, which understates the lag by the
// time between them at most.
func (c *lagClock) thin() {
	last := c.marks[len(c.marks)-1]
	kept := c.marks[:0]
	for i := 0; i < len(c.marks)-1; i += 2 {
		kept = append(kept, c.marks[i])
	}
	c.marks = append(kept, last)
}
