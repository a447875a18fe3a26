package trace

import "github.com/slotferry/slotferry/protocol"

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
