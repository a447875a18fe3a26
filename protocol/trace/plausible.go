package trace

import (
	"encoding/binary"

	"github.com/slotferry/slotferry/protocol"
)

// bounds are the shortest and longest length field that a frame of a type can
// have.
type bounds struct{ least, most uint32 }

const (
	anyLength  = protocol.MaxFrame - 1
	textLength = 1 << 20 // of what is never large: errors, settings, descriptions
)

var downstreamBounds = [256]bounds{
	'R': {8, 64 << 10}, 'K': {12, 264}, '2': {4, 4}, '3': {4, 4}, 'C': {5, 64 << 10}, 'd': {4, anyLength}, 'c': {4, 4},
	'G': {7, 64 << 10}, 'H': {7, 64 << 10}, 'W': {7, 64 << 10}, 'D': {6, anyLength}, 'I': {4, 4}, 'E': {5, textLength},
	'V': {8, anyLength}, 'v': {12, 64 << 10}, 'n': {4, 4}, 'N': {5, textLength}, 'A': {10, textLength},
	't': {6, textLength}, 'S': {6, textLength}, '1': {4, 4}, 's': {4, 4}, 'Z': {5, 5}, 'T': {6, textLength},
}

var upstreamBounds = [256]bounds{
	'B': {12, anyLength}, 'C': {6, 64 << 10}, 'd': {4, anyLength}, 'c': {4, 4}, 'f': {5, textLength}, 'D': {6, 64 << 10},
	'E': {9, 64 << 10}, 'H': {4, 4}, 'F': {14, anyLength}, 'P': {8, anyLength}, 'p': {4, textLength}, 'Q': {5, anyLength},
	'S': {4, 4}, 'X': {4, 4},
}

// frameSize returns the length of the frame at the front of b, of which the
// header is there. known says that the protocol has such a frame; ok, that it
// can be one at all.
func frameSize(dir Direction, b []byte) (size int64, known, ok bool) {
	length := binary.BigEndian.Uint32(b[1:])
	limits := downstreamBounds[b[0]]
	if dir == Upstream {
		limits = upstreamBounds[b[0]]
	}
	if limits.most > 0 {
		return 1 + int64(length), true, length >= limits.least && length <= limits.most
	}
	letter := b[0] >= 'A' && b[0] <= 'Z' || b[0] >= 'a' && b[0] <= 'z'
	return 1 + int64(length), false, letter && length >= 4 && length <= textLength
}

// within10Years bounds how far a time on the wire may be from the time of the
// capture, to be believed when nothing else is.
const within10Years = 10 * 366 * 86400 * 1e6

func near(t, now int64) bool {
	d := t - now
	return now == 0 || d < within10Years && d > -within10Years
}

// evidence is how sure it is that a frame begins somewhere.
type evidence uint8

const (
	no       evidence = iota
	maybe             // it looks like one: what follows must, too
	surely            // nothing else looks like this
	tooShort          // more bytes are needed to tell
)

// recognise says whether a frame begins at the front of b, when nothing is known
// about where frames begin. now is when the bytes were captured.
func recognise(dir Direction, b []byte, now int64) (evidence, int64) {
	if len(b) < protocol.FrameHeaderLen {
		return tooShort, 0
	}
	size, known, ok := frameSize(dir, b)
	if !known || !ok {
		return no, 0
	}
	if b[0] != protocol.FrameCopyData {
		return recogniseFrame(dir, b, size), size
	}
	if len(b) < protocol.FrameHeaderLen+protocol.XLogDataHeaderLen && int64(len(b)) < size {
		return tooShort, 0
	}
	return recogniseCopyData(dir, b[protocol.FrameHeaderLen:min(int64(len(b)), size)], size-protocol.FrameHeaderLen, now), size
}

func recogniseFrame(dir Direction, b []byte, size int64) evidence {
	if dir == Downstream && b[0] == protocol.FrameReadyForQuery {
		if len(b) < 6 {
			return tooShort
		}
		if _, err := protocol.DecodeReadyForQuery(b[5:6]); err != nil {
			return no
		}
		return surely
	}
	// A frame that is not large and ends in a zero byte, as those made of strings do.
	if size <= textLength && int64(len(b)) >= size {
		ends := b[size-1] == 0
		switch {
		case dir == Downstream && (b[0] == 'C' || b[0] == 'E' || b[0] == 'N' || b[0] == 'S'):
			if !ends || size < 7 {
				return no
			}
		case dir == Upstream && b[0] == protocol.FrameQuery:
			if !ends {
				return no
			}
		}
	}
	return maybe
}

// recogniseCopyData looks at the content of a CopyData of n bytes, of which b
// is there.
func recogniseCopyData(dir Direction, b []byte, n, now int64) evidence {
	if len(b) == 0 {
		return maybe
	}
	kind := b[0]
	switch {
	case dir == Downstream && kind == protocol.MsgXLogData && n >= protocol.XLogDataHeaderLen:
		var m protocol.XLogData
		if m.Decode(b[1:protocol.XLogDataHeaderLen]) != nil || !near(m.SendTime, now) {
			return no
		}
		size := protocol.LSN(n - protocol.XLogDataHeaderLen)
		if m.WALEnd != 0 && (m.DataStart == 0 || m.DataStart == m.WALEnd || m.DataStart+size <= m.WALEnd) {
			return surely
		}
		return no
	case dir == Downstream && kind == protocol.MsgPrimaryKeepalive && n == 18:
		var m protocol.PrimaryKeepalive
		if m.Decode(b[1:18]) == nil && near(m.SendTime, now) {
			return surely
		}
		return no
	case dir == Upstream && kind == protocol.MsgStandbyStatusUpdate && n == 34:
		var m protocol.StandbyStatusUpdate
		if len(b) >= 34 && m.Decode(b[1:34]) == nil && near(m.SendTime, now) {
			return surely
		}
		return no
	case dir == Upstream && kind == protocol.MsgHotStandbyFeedback && n == 25:
		var m protocol.HotStandbyFeedback
		if m.Decode(b[1:25]) == nil && near(m.SendTime, now) {
			return surely
		}
		return no
	case dir == Upstream && kind == protocol.MsgHelperReport && len(b) > len(protocol.SlotMagic):
		if protocol.HasSlotMagic(b[1:]) {
			return surely
		}
	}
	return maybe
}
