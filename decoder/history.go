package decoder

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// History is the content of a timeline history file: where each earlier
// timeline ended. readTimeLineHistory (timeline.c) is the server's reader.
type History []HistoryEntry

// HistoryEntry is one line of a timeline history file.
type HistoryEntry struct {
	TimelineID uint32
	Switch     protocol.LSN // the next timeline forked off here
}

// ParseHistory reads a timeline history file. Comments and empty lines are
// skipped; anything else that is not a timeline and an LSN is an error.
func ParseHistory(content string) (History, error) {
	var h History
	for n, line := range strings.Split(content, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("parse timeline history line %d: want a timeline and an LSN, got %q", n+1, line)
		}
		tli, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || tli == 0 {
			return nil, fmt.Errorf("parse timeline history line %d: bad timeline %q", n+1, fields[0])
		}
		lsn, err := protocol.ParseLSN(fields[1])
		if err != nil {
			return nil, fmt.Errorf("parse timeline history line %d: %w", n+1, err)
		}
		if len(h) > 0 && uint32(tli) <= h[len(h)-1].TimelineID {
			return nil, fmt.Errorf("parse timeline history line %d: timeline %d does not follow %d",
				n+1, tli, h[len(h)-1].TimelineID)
		}
		h = append(h, HistoryEntry{TimelineID: uint32(tli), Switch: lsn})
	}
	return h, nil
}

// SwitchFrom says where the history left a timeline; false when it never was
// on it.
func (h History) SwitchFrom(tli uint32) (protocol.LSN, bool) {
	for _, e := range h {
		if e.TimelineID == tli {
			return e.Switch, true
		}
	}
	return protocol.InvalidLSN, false
}

// Holds says whether a position that was reached on timeline tli lies on this
// history, which is that of timeline current: every later switch must have been at
// it or behind it. end is the first switch that it has to be compared with;
// InvalidLSN when the history never was on tli.
func (h History) Holds(tli, current uint32, at protocol.LSN) (end protocol.LSN, ok bool) {
	if tli == current {
		return protocol.InvalidLSN, true
	}
	end, ok = h.SwitchFrom(tli)
	for _, e := range h {
		if e.TimelineID >= tli {
			end = min(end, e.Switch)
		}
	}
	return end, ok && at <= end
}

// lastTimeline is the timeline that the current one forked off from; 0 on a first
// timeline.
func (h History) lastTimeline() uint32 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].TimelineID
}

// LastSwitch is where the current timeline forked off, InvalidLSN on a first
// timeline.
func (h History) LastSwitch() protocol.LSN {
	if len(h) == 0 {
		return protocol.InvalidLSN
	}
	return h[len(h)-1].Switch
}
