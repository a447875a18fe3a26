package relay

import (
	"encoding/binary"

	"github.com/slotferry/slotferry/protocol"
)

// step is what a Flow does with the frame that begins at a boundary. The zero
// value waits for more bytes.
type step struct {
	size int    // of the frame
	take bool   // it is taken out, and handed over when whole
	drop bool   // it is here whole, and vanishes
	skip bool   // it vanishes, whole or not
	own  []byte // it is here whole, and these bytes take its place
	err  error  // the session ends before it
}

// decide looks at the frame that b begins with. It asks for more bytes only
// while the frame's kind cannot be told, so that none is held back longer than
// a reader on the other side would have to wait anyway.
func (f *Flow) decide(b []byte, v *Verdict) step {
	if len(b) == 0 {
		return step{}
	}
	if !f.first && f.dir == Downstream && !mayOpen(b[0]) {
		return step{err: errNotPostgres}
	}
	if len(b) < protocol.FrameHeaderLen {
		return step{}
	}
	var h protocol.FrameHeader
	err := h.Decode(b)
	if err == nil && !f.conv.ready && h.Size() > maxLoginFrame {
		err = &protocol.MessageError{Message: "frame header", Offset: 1, Err: protocol.ErrFrameLength}
	}
	if err != nil {
		if !f.first && f.dir == Downstream && b[0] == protocol.FrameErrorResponse {
			// A postmaster that cannot fork sends its error without a length
			// (report_fork_failure_to_client, postmaster.c).
			f.raw = true
			return step{}
		}
		return step{err: err}
	}
	f.first = true
	if f.dir == Downstream {
		return f.decideDownstream(h, b, v)
	}
	return f.decideUpstream(h, b, v)
}

// mayOpen reports whether a server's answer to a startup packet may begin so.
func mayOpen(kind byte) bool {
	switch kind {
	case protocol.FrameAuthentication, protocol.FrameErrorResponse, protocol.FrameNotice, protocol.FrameNegotiate:
		return true
	default:
		return false
	}
}

func (f *Flow) decideDownstream(h protocol.FrameHeader, b []byte, v *Verdict) step {
	forward := step{size: h.Size()}
	if f.gate != nil && f.conv.creates {
		if s, decided := f.decideCreate(h, b, v); decided {
			return s
		}
	}
	switch h.Type {
	case protocol.FrameCopyData:
		if f.conv.stream == streamPhysical || f.strip && f.conv.strips() {
			return f.decideWAL(h, b)
		}
		if f.gate != nil && f.conv.logical() {
			return f.decideLogical(h, b, v)
		}
		return forward
	case protocol.FrameNegotiate:
		if f.conv.ready || !f.strip || !f.conv.Marker || h.Size() > maxHeldLogin {
			return forward
		}
		if len(b) < h.Size() {
			return step{}
		}
		return f.decideNegotiate(b[:h.Size()], v)
	case protocol.FrameAuthentication:
		if f.conv.ready || !f.conv.binding.ends() || h.Size() > maxHeldLogin {
			return forward
		}
		if len(b) < h.Size() {
			return step{}
		}
		return f.conv.binding.offer(b[:h.Size()])
	case protocol.FrameBackendKeyData:
		if f.conv.ready || h.Size() > maxHeldLogin {
			return forward
		}
		if len(b) < h.Size() {
			return step{}
		}
		var k protocol.BackendKeyData
		if err := k.Decode(b[protocol.FrameHeaderLen:h.Size()]); err == nil {
			k.Key = append([]byte(nil), k.Key...)
			v.Key = &k
		}
		return forward
	case protocol.FrameDataRow, protocol.FrameErrorResponse:
		// Why a walreceiver does not stream, ModeStrip wants to know.
		if !f.strip || h.Size() > maxHeldLogin {
			break
		}
		if len(b) < h.Size() {
			return step{}
		}
		f.learn(h.Type, b[protocol.FrameHeaderLen:h.Size()], v)
	}
	v.Ready = v.Ready || !f.conv.ready && h.Type == protocol.FrameReadyForQuery
	if f.conv.fromUpstream(h.Type) {
		f.position = f.conv.command.StartLSN
		f.pending = f.position
		v.Began, v.Boundary = true, -1
	}
	v.Ended = v.Ended || f.conv.stream == streamPhysical && f.conv.upDone
	if f.gate != nil && h.Type == protocol.FrameCopyBoth {
		f.gate.begin(f.conv)
	}
	return forward
}

// whole returns the length of all XLogData frames that b begins with and has
// whole, but for those at 0/0. It is decide for what most of a stream is, at a
// tenth of the time.
func (f *Flow) whole(b []byte) (n int) {
	const (
		data  = protocol.FrameHeaderLen + protocol.XLogDataHeaderLen
		start = protocol.FrameHeaderLen + 1
	)
	if f.dir == Upstream || f.conv.stream != streamPhysical {
		return 0
	}
	at, size := f.position, f.frame
	for len(b)-n >= data {
		head := b[n : n+data]
		first := binary.BigEndian.Uint64(head) // type, length, type of the message
		length := 1 + int(uint32(first>>24))
		lsn := protocol.LSN(binary.BigEndian.Uint64(head[start:]))
		if byte(first>>56) != protocol.FrameCopyData || byte(first>>16) != protocol.MsgXLogData ||
			length < data || length > len(b)-n || lsn == protocol.InvalidLSN {
			break
		}
		at, size = lsn+protocol.LSN(length-data), length
		n += length
	}
	f.position, f.frame = at, size
	return n
}

// learn notes what the upstream says of itself, and of what it refuses. What
// cannot be read is passed over: the downstream judges it.
func (f *Flow) learn(kind byte, body []byte, v *Verdict) {
	if kind == protocol.FrameErrorResponse {
		e := new(protocol.ErrorResponse)
		if e.Decode(body) == nil {
			v.UpstreamError = e
		}
		return
	}
	var row protocol.IdentifySystemRow
	if f.conv.command.Kind == protocol.CommandIdentifySystem && f.conv.outstanding == 1 && row.Decode(body) == nil {
		v.SystemIdentifier = row.SystemIdentifier
	}
}

// decideWAL tells WAL from slot messages on a physical stream. What is damaged
// is not judged here: the walreceiver does that.
func (f *Flow) decideWAL(h protocol.FrameHeader, b []byte) step {
	const dataAt = protocol.FrameHeaderLen + protocol.XLogDataHeaderLen
	forward := step{size: h.Size()}
	switch {
	case h.Size() == protocol.FrameHeaderLen:
		return forward
	case len(b) <= protocol.FrameHeaderLen:
		return step{}
	case b[protocol.FrameHeaderLen] != protocol.MsgXLogData || h.Size() < dataAt:
		return forward
	case len(b) < protocol.FrameHeaderLen+9:
		return step{}
	}
	start := protocol.LSN(binary.BigEndian.Uint64(b[protocol.FrameHeaderLen+1:]))
	switch {
	case start != protocol.InvalidLSN:
		f.pending = start + protocol.LSN(h.Size()-dataAt)
		return forward
	case !f.strip || !f.conv.strips() || h.Size() == dataAt:
		return forward
	case len(b) < min(h.Size(), slotFrameHead):
		return step{}
	case protocol.HasSlotMagic(b[dataAt:min(h.Size(), slotFrameHead)]):
		return step{size: h.Size(), take: true}
	default:
		return step{err: errForeignZero}
	}
}

// decideNegotiate takes the marker's name out of the upstream's answer: the
// downstream never sent it.
func (f *Flow) decideNegotiate(frame []byte, v *Verdict) step {
	var m protocol.NegotiateProtocolVersion
	if err := m.Decode(frame[protocol.FrameHeaderLen:]); err != nil {
		return step{size: len(frame)}
	}
	rest, found, needed := m.Without(protocol.OptInParameter, f.asked)
	if !found {
		return step{size: len(frame)}
	}
	v.NoRelay = true
	f.conv.Marker = false
	if !needed {
		return step{size: len(frame), drop: true}
	}
	return step{size: len(frame), own: rest.Append(nil)}
}

func (f *Flow) decideUpstream(h protocol.FrameHeader, b []byte, v *Verdict) step {
	forward := step{size: h.Size()}
	if f.conv.sidecar != sidecarNone {
		return f.decideSidecar(h, b)
	}
	switch h.Type {
	case protocol.FrameCopyData:
		if f.watch && !f.observe(h, b, v) {
			return step{}
		}
		if !f.conv.Marker {
			return forward
		}
		return decideReport(h, b)
	case protocol.FrameQuery:
		if !f.conv.ready || h.Size() > maxHeldQuery {
			break
		}
		if len(b) < h.Size() {
			return step{}
		}
		query := queryText(b[protocol.FrameHeaderLen:h.Size()])
		if f.conv.Sidecar && f.conv.Marker && f.conv.idle() &&
			protocol.ParseCommand(query).Kind == protocol.CommandSlotState {
			f.conv.sidecar = sidecarAsked
			return step{size: h.Size(), drop: true}
		}
		f.conv.fromDownstream(h.Type, query)
		return forward
	}
	if h.Type == protocol.FramePassword && f.conv.binding.waits() && h.Size() <= maxHeldLogin {
		if len(b) < h.Size() {
			return step{}
		}
		return f.conv.binding.answer(b[:h.Size()])
	}
	f.conv.fromDownstream(h.Type, "")
	if h.Type == protocol.FrameQuery {
		f.conv.creates = true // for all that is known
	}
	return forward
}

// decideReport tells the helper's reports from the walreceiver's feedback.
func decideReport(h protocol.FrameHeader, b []byte) step {
	const magicAt = protocol.FrameHeaderLen + 1
	switch {
	case h.Size() < reportFrameHead:
		return step{size: h.Size()}
	case len(b) < magicAt:
		return step{}
	case b[protocol.FrameHeaderLen] != protocol.MsgHelperReport:
		return step{size: h.Size()}
	case len(b) < reportFrameHead:
		return step{}
	}
	return step{size: h.Size(), take: protocol.HasSlotMagic(b[magicAt:reportFrameHead])}
}

// decideSidecar deals with what comes from the downstream during SLOT_STATE.
// The upstream has no part in that but for the end of the session.
func (f *Flow) decideSidecar(h protocol.FrameHeader, b []byte) step {
	open := f.conv.sidecar != sidecarEnding
	switch {
	case h.Type == protocol.FrameTerminate:
		return step{size: h.Size()}
	case h.Type == protocol.FrameCopyData:
		return step{size: h.Size(), take: true}
	case h.Type == protocol.FrameCopyDone && open, h.Type == protocol.FrameCopyFail && open:
		if h.Size() > maxHeldQuery {
			return step{err: errSidecarSpeech}
		}
		if len(b) < h.Size() {
			return step{}
		}
		f.conv.endSidecar()
		return step{size: h.Size(), drop: true}
	default:
		return step{err: errSidecarSpeech}
	}
}

// queryText is a Query's text up to its terminator.
func queryText(body []byte) string {
	for i, c := range body {
		if c == 0 {
			return string(body[:i])
		}
	}
	return string(body)
}
