package trace

import (
	"fmt"

	"github.com/slotferry/slotferry/protocol"
)

// frame takes a frame.
func (f *flow) frame(b []byte, used int) (n int, wait bool) {
	rest := b[used:]
	if len(rest) < protocol.FrameHeaderLen {
		return 0, true
	}
	size, known, ok := frameSize(f.dir, rest)
	switch {
	case !ok, f.s.conv.Phase != PhaseSession && size > textLength:
		return f.broken(b, used, "no message begins here", 0), false
	case int64(len(rest)) < size && f.contradicts(rest, size):
		return f.broken(b, used, "what is in the message that begins here contradicts its length", 1), false
	case int64(len(rest)) < size && size > maxKept:
		return f.beginLarge(rest, size), false
	case int64(len(rest)) < size:
		return 0, true
	}
	if next := rest[size:]; len(next) >= protocol.FrameHeaderLen {
		_, nextKnown, nextOK := frameSize(f.dir, next)
		if !nextOK || !known && !nextKnown {
			return f.broken(b, used, fmt.Sprintf("the message that begins here does not end where its length says, %d bytes on: "+
				"no message begins there", size), 1), false
		}
	}
	f.message(rest[0], &Message{Length: size, body: rest[protocol.FrameHeaderLen:size]})
	return int(size), false
}

// contradicts reports whether what a CopyData holds, as far as it is there, cannot
// be as long as the frame says. To wait for the rest would swallow what follows.
func (f *flow) contradicts(rest []byte, size int64) bool {
	const largeUnknown = 4 << 10
	copying := f.s.conv.Copy
	if rest[0] != protocol.FrameCopyData || len(rest) == protocol.FrameHeaderLen ||
		copying != CopyPhysical && copying != CopyLogical && copying != CopySlotState {
		return false
	}
	content, n := rest[protocol.FrameHeaderLen:], size-protocol.FrameHeaderLen
	switch kind := content[0]; {
	case f.dir == Downstream && kind == protocol.MsgXLogData:
		return n < protocol.XLogDataHeaderLen || copying == CopyPhysical && len(content) >= protocol.XLogDataHeaderLen &&
			recogniseCopyData(f.dir, content, n, 0) == no
	case f.dir == Downstream && kind == protocol.MsgPrimaryKeepalive:
		return n != 18
	case f.dir == Upstream && kind == protocol.MsgStandbyStatusUpdate:
		return n != 34
	case f.dir == Upstream && kind == protocol.MsgHotStandbyFeedback:
		return n != 25
	case f.dir == Upstream && kind == protocol.MsgHelperReport:
		return n > protocol.MaxHelperReport
	default:
		return n > largeUnknown
	}
}

// beginLarge begins a frame of which only the begin is kept.
func (f *flow) beginLarge(rest []byte, size int64) int {
	p := f.pieceAt(f.pos)
	f.large = Message{
		Length: size, Position: f.pos, Offset: p.offset + f.pos - p.pos, placed: true, frame: rest[0],
		body: append([]byte(nil), rest[protocol.FrameHeaderLen:min(len(rest), maxKept)]...),
	}
	f.left = size - int64(len(rest))
	f.pos += int64(len(rest))
	return len(rest)
}

// beginRest begins the end of a frame whose begin is in another input.
func (f *flow) beginRest(left int64) {
	f.large = Message{Length: left, Position: f.pos, Offset: -1, kind: kindUnfinished, Name: "Unfinished",
		Note: "the begin of this message is in an earlier file"}
	f.left = left
}

// passLarge takes bytes of a large frame.
func (f *flow) passLarge(rest []byte) int {
	n := int(min(f.left, int64(len(rest))))
	if f.large.Offset < 0 {
		f.large.Offset = f.pieceAt(f.pos).offset
	}
	if f.large.Missing == 0 && len(f.large.body) < maxKept && f.large.kind != kindUnfinished {
		f.large.body = append(f.large.body, rest[:min(n, maxKept-len(f.large.body))]...)
	}
	f.pos += int64(n)
	if f.left -= int64(n); f.left == 0 {
		f.endLarge()
	}
	return n
}

func (f *flow) endLarge() {
	m := f.large
	f.large = Message{}
	if m.kind == kindUnfinished {
		f.send(&m)
		return
	}
	f.message(m.frame, &m)
}
