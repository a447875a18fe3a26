package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/slotferry/slotferry/protocol"
)

const (
	// maxKept is how much of a frame's body is kept to be decoded. The largest
	// XLogData of a walsender is 128 KiB and a header (MAX_SEND_SIZE, walsender.c).
	maxKept = 1 << 20

	// maxIdle is how much memory a flow keeps that has nothing in it: room for the
	// largest XLogData and what was read with it.
	maxIdle = 512 << 10

	around = 32 // bytes shown before and behind a break
)

// piece is a run of bytes as it was fed.
type piece struct {
	pos    int64 // in the stream
	offset int64 // in the input
	time   int64
}

// flow finds the frames of one direction.
type flow struct {
	s   *Session
	dir Direction

	pos    int64   // in the stream, of the next byte that is not dealt with
	kept   []byte  // such bytes, when they are no whole frame
	pieces []piece // that they lie in, oldest first
	newest piece   // the last one fed

	// A frame larger than maxKept, or one that bytes are missing of.
	large Message
	left  int64 // bytes of it still to come; 0 when there is none

	seeker seeker

	last     lastGood
	tail     [around]byte // the last bytes dealt with
	tailHave int
	target   int64 // stream position of the byte Config.At; -1 while it did not come
}

// feed deals with b, which follows what was fed before.
func (f *flow) feed(b []byte, offset, time int64) {
	if len(b) == 0 {
		return
	}
	at := f.pos + int64(len(f.kept))
	f.newest = piece{at, offset, time}
	f.pieces = append(f.pieces, f.newest)
	if want := f.s.cfg.At; want >= offset && want < offset+int64(len(b)) {
		f.target = at + want - offset
	}
	data := b
	if len(f.kept) > 0 {
		if need := len(f.kept) + len(b); need > cap(f.kept) {
			f.kept = append(make([]byte, 0, need+need/2), f.kept...)
		}
		f.kept = append(f.kept, b...)
		data = f.kept
	}
	used := f.scan(data)
	f.keepTail(data[:used])
	f.keep(data[used:])
}

// scan deals with as much of b, which lies at pos, as it can.
func (f *flow) scan(b []byte) (used int) {
	for wait := false; used < len(b) && !wait; {
		n := 0
		switch {
		case f.left > 0:
			n = f.passLarge(b[used:])
		case f.s.conv.Phase == PhaseOpaque && f.s.conv.opaque(f.dir, b[used:]):
			n = len(b) - used
			f.deliver(&Message{kind: kindOpaque, Name: "Encrypted", Length: int64(n)})
		case f.seeker.active:
			n, wait = f.seek(b[used:], false)
		case f.dir == Upstream && f.s.conv.Phase == PhaseStartup:
			n, wait = f.startup(b, used)
		case f.dir == Downstream && f.s.conv.Phase == PhaseStartup && f.s.conv.secured:
			f.s.conv.Phase = PhaseOpaque // the upstream speaks first in no session that can be read
		case f.dir == Downstream && f.s.conv.Phase == PhaseStartup && f.s.conv.Answers > 0 && b[used] != 'E':
			n = f.answer(b[used:])
		default:
			n, wait = f.frame(b, used)
		}
		used += n
	}
	return used
}

// keep keeps what was not dealt with.
func (f *flow) keep(rest []byte) {
	if len(rest) == 0 && cap(f.kept) > maxIdle {
		f.kept = nil
	}
	f.kept = append(f.kept[:0], rest...)
	first := 0
	for first+1 < len(f.pieces) && f.pieces[first+1].pos <= f.pos {
		first++
	}
	if len(rest) == 0 {
		first = len(f.pieces)
	}
	f.pieces = append(f.pieces[:0], f.pieces[first:]...)
}

// keepTail remembers the last bytes dealt with, for a break that follows them.
func (f *flow) keepTail(b []byte) {
	if len(b) >= around {
		f.tailHave = copy(f.tail[:], b[len(b)-around:])
		return
	}
	old := min(f.tailHave, around-len(b))
	copy(f.tail[:], f.tail[f.tailHave-old:f.tailHave])
	f.tailHave = old + copy(f.tail[old:], b)
}

// startup takes a packet without type byte.
func (f *flow) startup(b []byte, used int) (n int, wait bool) {
	rest := b[used:]
	if f.s.conv.encrypted(rest) {
		f.s.conv.Phase = PhaseOpaque
		return 0, false
	}
	if len(rest) < 8 {
		return 0, true
	}
	size := binary.BigEndian.Uint32(rest)
	if size < 8 || size > protocol.MaxStartupPacket+64 {
		return f.broken(b, used, fmt.Sprintf("a startup packet cannot be %d bytes long", size), 0), false
	}
	if len(rest) < int(size) {
		return 0, true
	}
	code := binary.BigEndian.Uint32(rest[4:])
	m := Message{kind: kindStartup, Name: startupName(code), Length: int64(size), body: rest[:size]}
	f.deliver(&m)
	f.s.conv.StartupPacket(code, rest[:size])
	return int(size), false
}

func startupName(code uint32) string {
	switch code {
	case protocol.SSLRequestCode:
		return "SSLRequest"
	case protocol.GSSENCRequestCode:
		return "GSSENCRequest"
	case protocol.CancelRequestCode:
		return "CancelRequest"
	default:
		return "StartupMessage"
	}
}

// answer takes the one byte that answers SSLRequest or GSSENCRequest.
func (f *flow) answer(rest []byte) int {
	f.deliver(&Message{kind: kindAnswer, Name: "EncryptionResponse", Length: 1, body: rest[:1]})
	f.s.conv.Answered(rest[0])
	return 1
}

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

// lost skips n bytes that the input does not have.
func (f *flow) lost(n int64, reason string) {
	rest := f.kept
	if f.left == 0 && n > 0 && len(rest) >= protocol.FrameHeaderLen && !f.seeker.active && f.s.conv.Phase >= PhaseLogin {
		if size, _, ok := frameSize(f.dir, rest); ok && size-int64(len(rest)) >= n {
			f.beginLarge(rest, size)
			f.keep(nil)
		}
	}
	if n > 0 && n <= f.left {
		f.large.Missing += n
		f.left -= n
		f.pos += n
		if f.left == 0 {
			f.endLarge()
		}
		return
	}
	f.end()
	f.pos += max(n, 0)
	f.s.conv.joinLate()
	f.seeker.begin(reason, max(n, 0))
	f.seeker.position, f.seeker.offset = f.pos-max(n, 0), f.newest.offset
}

// end accounts for what is left over.
func (f *flow) end() {
	for again := true; again; {
		again = false
		if f.seeker.active {
			n, _ := f.seek(f.kept, true)
			f.keep(f.kept[n:])
			if f.seeker.active {
				f.seeker.finish(f)
			}
		}
		if len(f.kept) > 0 && f.left == 0 { // perhaps a message was found in it
			rest := append([]byte(nil), f.kept...)
			used := f.scan(rest)
			f.keep(rest[used:])
			again = used > 0 || f.seeker.active
		}
	}
	switch {
	case f.left > 0:
		f.large.Length -= f.left
		f.left = 0
		f.large.kind, f.large.Name = kindUnfinished, "Unfinished"
		f.large.Note = "the input ends within this message"
		f.send(&f.large)
		f.large = Message{}
	case len(f.kept) > 0:
		f.unfinished()
	}
}

func (f *flow) unfinished() {
	f.deliver(&Message{kind: kindUnfinished, Name: "Unfinished", Length: int64(len(f.kept)), body: f.kept,
		Note: "the input ends within this message"})
	f.keep(nil)
}

// pieceAt returns the piece that a position lies in.
func (f *flow) pieceAt(pos int64) piece {
	for i := len(f.pieces) - 1; i >= 0; i-- {
		if p := f.pieces[i]; p.pos <= pos {
			return p
		}
	}
	return piece{pos: pos, offset: f.newest.offset} // bytes that the input does not have
}

// deliver hands over a message that begins at pos, and goes on behind it.
func (f *flow) deliver(m *Message) {
	p := f.pieceAt(f.pos)
	m.Position, m.Offset = f.pos, p.offset+f.pos-p.pos
	f.pos += m.Length
	f.send(m)
}

// send hands over a message.
func (f *flow) send(m *Message) {
	m.s, m.Connection, m.Direction = f.s, f.s.id, f.dir
	m.Time = f.newest.time
	m.At = f.target >= m.Position && f.target < m.Position+m.Length
	f.s.emit(m)
	if m.kind < kindBreak {
		f.last = lastGood{m.Name, m.frame, m.Length, m.Offset, m.Position, m.Start}
	}
}

// message hands over a frame. One that has been delivered piece by piece has
// its place already.
func (f *flow) message(frame byte, m *Message) {
	m.frame = frame
	f.s.classify(f.dir, m)
	opens := frame == protocol.FrameCopyBoth || frame == 'H' || frame == 'G' || frame == 'T'
	body, kind := m.body, frame
	if opens {
		f.s.note(f.dir, kind, body)
	}
	if m.placed {
		f.send(m)
	} else {
		f.deliver(m)
	}
	if !opens {
		f.s.note(f.dir, kind, body)
	}
}
