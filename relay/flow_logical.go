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
		begin := protocol.LSN(max(binary.BigEndian.Uint64(b[at+1:]), binary.BigEndian.Uint64(b[at+9:])))
		end, known := dataEnd(h, b, begin)
		if !known {
			return step{}
		}
		switch {
		case f.gate.data(begin, end):
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

// dataEnd returns up to where the standbys must have flushed for an XLogData with
// the position begin to pass: that position, but for a non-transactional message of
// pgoutput. known is false while too little of the frame is here.
func dataEnd(h protocol.FrameHeader, b []byte, begin protocol.LSN) (end protocol.LSN, known bool) {
	const data = protocol.FrameHeaderLen + protocol.XLogDataHeaderLen
	n := h.Size() - data - pgoutputMessageLen
	switch {
	case n <= 0 || begin == protocol.InvalidLSN:
		return begin, true
	case len(b) <= data:
		return begin, false
	case b[data] != protocol.LogicalMessageMsg:
		return begin, true
	case len(b) < data+10:
		return begin, false
	}
	const transactional = 1
	if b[data+1]&transactional != 0 || protocol.LSN(binary.BigEndian.Uint64(b[data+2:])) != begin {
		return begin, true
	}
	return messageEnd(begin, n), true
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
