package relay

import (
	"encoding/binary"

	"github.com/slotferry/slotferry/protocol"
)

// Lengths of messages inside CopyData, type byte included.
const (
	keepaliveLen    = 1 + 8 + 8 + 1
	statusUpdateLen = 1 + 4*8 + 1
)

// decideLogical holds a logical stream back. The position of an XLogData is the
// greater one of its header's two, as the apply worker takes it; walsender writes
// the same to both (WalSndPrepareWrite). What is damaged is not judged here: the
// subscriber does that.
func (f *Flow) decideLogical(h protocol.FrameHeader, b []byte, v *Verdict) step {
	const at = protocol.FrameHeaderLen
	forward := step{size: h.Size()}
	switch {
	case h.Size() == at:
		return forward
	case len(b) <= at:
		return step{}
	}
	switch {
	case b[at] == protocol.MsgXLogData && h.Size() >= at+protocol.XLogDataHeaderLen:
		if len(b) < at+1+16 {
			return step{}
		}
		position := max(binary.BigEndian.Uint64(b[at+1:]), binary.BigEndian.Uint64(b[at+9:]))
		switch {
		case f.gate.data(protocol.LSN(position)):
		case f.conv.copyEnded:
			// The subscriber wants no more, and waits for the upstream to say so, too.
			f.gate.blocked = protocol.InvalidLSN
			forward.skip = true
		default:
			v.Held = true
			return step{}
		}
	case b[at] == protocol.MsgPrimaryKeepalive && h.Size() == at+keepaliveLen:
		if len(b) < h.Size() {
			return step{}
		}
		var m protocol.PrimaryKeepalive
		if m.Decode(b[at+1:h.Size()]) != nil {
			return forward
		}
		if shown := f.gate.keepalive(m.WALEnd); shown != m.WALEnd {
			m.WALEnd = shown
			return step{size: h.Size(), own: protocol.AppendCopyData(nil, m.Append(nil))}
		}
	}
	return forward
}

// observe notes what a standby says it has flushed, on its way upstream. It
// reports whether the frame's kind can be told, as decide's callers do: the
// message is waited for until it is whole, as the walsender will.
func (f *Flow) observe(h protocol.FrameHeader, b []byte, v *Verdict) (known bool) {
	const at = protocol.FrameHeaderLen
	switch {
	case f.conv.stream != streamPhysical || h.Size() != at+statusUpdateLen:
		return true
	case len(b) <= at:
		return false
	case b[at] != protocol.MsgStandbyStatusUpdate:
		return true
	case len(b) < h.Size():
		return false
	}
	var m protocol.StandbyStatusUpdate
	if m.Decode(b[at+1:h.Size()]) == nil {
		v.Flush = m.Flush
	}
	return true
}
