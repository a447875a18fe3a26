package trace

import (
	"encoding/binary"

	"github.com/slotferry/slotferry/protocol"
)

const (
	// maxSeek is how many bytes are kept while the next message is looked for.
	maxSeek = 256 << 10

	// chainLength is how many frames in a row are believed, when none of them is
	// certain by itself.
	chainLength = 3
)

// seeker is where the search for the next message stands.
type seeker struct {
	active bool
	reason string

	begun    bool // gap bytes have been taken
	position int64
	offset   int64
	gap      int64
	missing  int64
	enough   int // how many bytes must be there before it is worth another look
}

func (k *seeker) begin(reason string, missing int64) {
	*k = seeker{active: true, reason: reason, missing: missing}
}

// broken says that no message begins at b[used], and looks for the next one.
// skip bytes are not looked at again.
func (f *flow) broken(b []byte, used int, reason string, skip int) int {
	before := b[max(0, used-around):used]
	if short := around - len(before); short > 0 && f.tailHave > 0 {
		before = append(append([]byte(nil), f.tail[max(0, f.tailHave-short):f.tailHave]...), before...)
	}
	m := Message{kind: kindBreak, Name: "Break", Fault: true, broken: &breakage{
		reason: reason, last: f.last, before: before, behind: b[used:min(len(b), used+around)], position: f.pos,
	}}
	f.deliver(&m)
	f.s.conv.joinLate()
	f.s.walker.Lost()
	f.seeker.begin("no message was found in these bytes", 0)
	f.seeker.take(f, int64(skip))
	return skip
}

// take adds n bytes at pos to the gap.
func (k *seeker) take(f *flow, n int64) {
	if n > 0 && !k.begun {
		p := f.pieceAt(f.pos)
		k.begun = true
		if k.missing == 0 {
			k.position, k.offset = f.pos, p.offset+f.pos-p.pos
		}
	}
	k.gap += n
	f.pos += n
}

// seek looks for the next message in rest. All that is surely not the begin of
// one is taken. wait says that more bytes are needed; last, that there are none.
func (f *flow) seek(rest []byte, last bool) (n int, wait bool) {
	k := &f.seeker
	if len(rest) < k.enough && !last {
		return 0, true
	}
	now := f.newest.time
	undecided := -1
	limits := &downstreamBounds
	if f.dir == Upstream {
		limits = &upstreamBounds
	}
	for at := range rest {
		if limits[rest[at]].most == 0 || at+1 < len(rest) && rest[at+1] > anyLength>>24 {
			continue // no frame begins so
		}
		switch f.judge(rest[at:], now, last) {
		case surely:
			k.take(f, int64(at))
			k.finish(f)
			return at, false
		case tooShort:
			if undecided < 0 {
				undecided = at
			}
		}
	}
	switch {
	case undecided < 0 || last:
		undecided = len(rest)
	case len(rest)-undecided > maxSeek:
		undecided = len(rest) - maxSeek/2
	}
	k.take(f, int64(undecided))
	left := len(rest) - undecided
	k.enough = left + left/4 + 1
	return undecided, true
}

// judge says whether a message begins at the front of b: surely, no, or
// tooShort. A frame that is not certain by itself is believed when chainLength
// of them follow each other, or when they end where the bytes end.
func (f *flow) judge(b []byte, now int64, last bool) evidence {
	for n := 0; n < chainLength; n++ {
		if len(b) == 0 && n > 0 {
			return surely
		}
		is, size := recognise(f.dir, b, now)
		switch {
		case is == no:
			return no
		case is == surely:
			return surely
		case is == tooShort || size > int64(len(b)):
			if last || size > maxSeek/2 {
				return no
			}
			return tooShort
		}
		b = b[size:]
	}
	return surely
}

// finish ends the search and marks what was passed over.
func (k *seeker) finish(f *flow) {
	if k.gap > 0 || k.missing > 0 {
		f.send(&Message{kind: kindGap, Name: "Gap", Note: k.reason, Position: k.position, Offset: k.offset,
			Length: k.gap + k.missing, Missing: k.missing})
	}
	f.s.walkerLost(f.dir)
	*k = seeker{}
}

func (s *Session) walkerLost(dir Direction) {
	if dir == Downstream {
		s.walker.Lost()
		s.walEnd = protocol.InvalidLSN
	}
}

// Guess says, of bytes of a connection of which nothing is known, whether there
// are PostgreSQL's messages in them, and in which direction they go. time is when
// they were captured.
func Guess(b []byte, time int64) (dir Direction, ok bool) {
	for at := range b {
		for _, dir := range []Direction{Downstream, Upstream} {
			if is, _ := recognise(dir, b[at:], time); is == surely {
				return dir, true
			}
		}
	}
	return 0, false
}

// OpensSession reports whether a connection whose downstream sends b first can
// be PostgreSQL's, and whether enough of b is there to tell.
func OpensSession(b []byte) (ok, enough bool) {
	if len(b) < 8 {
		return false, false
	}
	length, code := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	switch {
	case length < 8 || length > protocol.MaxStartupPacket+64:
		return false, true
	case code>>16 == 3, code == protocol.SSLRequestCode, code == protocol.GSSENCRequestCode, code == protocol.CancelRequestCode:
		return true, true
	default:
		return false, true
	}
}
