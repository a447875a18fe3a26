package relay

import (
	"errors"
	"fmt"

	"github.com/slotferry/slotferry/protocol"
)

// Sizes up to which a Flow waits for a whole frame before it decides. Larger
// ones are forwarded as they come.
const (
	maxHeldQuery = 8 << 10
	maxHeldLogin = 16 << 10

	// maxLoginFrame is the size cap before the first ReadyForQuery. Whatever is
	// larger there is not PostgreSQL.
	maxLoginFrame = 1 << 20

	// slotFrameHead is as much of a CopyData as tells a slot message: frame
	// header, XLogData header, magic.
	slotFrameHead = protocol.FrameHeaderLen + protocol.XLogDataHeaderLen + len(protocol.SlotMagic)

	// reportFrameHead is as much of a CopyData as tells a helper report.
	reportFrameHead = protocol.FrameHeaderLen + 1 + len(protocol.SlotMagic)
)

// Direction is one of the two ways through a session.
type Direction uint8

// The directions.
const (
	Downstream Direction = iota // from the upstream to the downstream: WAL
	Upstream                    // from the downstream to the upstream: feedback
)

// String returns downstream or upstream.
func (d Direction) String() string {
	if d == Upstream {
		return "upstream"
	}
	return "downstream"
}

// Flow is one direction of a session. It is fed what was read and says what to
// forward. It is pure: no I/O, no clock, no goroutine. Both Flows of a session
// share its Conversation.
type Flow struct {
	dir   Direction
	strip bool // ModeStrip; else slot messages are only looked at for their position
	conv  *Conversation

	asked uint32 // protocol version of the startup packet

	gate  *holdGate // holds a logical stream back; nil: nothing is held
	watch bool      // note what standbys have flushed

	first    bool         // a frame has begun: the peer speaks PostgreSQL
	raw      bool         // no frames any more: forward everything
	frame    int          // size of the last frame that began, 0 for one that is not forwarded
	rest     int          // bytes of it still to come
	taking   bool         // they are taken out
	oversize bool         // and thrown away
	skipping bool         // they vanish
	capture  []byte       // what was taken of the current frame so far
	position protocol.LSN // end of WAL forwarded in whole frames
	pending  protocol.LSN // position once the current frame is whole
	offset   int64        // bytes dealt with, for errors

	verdict Verdict
}

// Verdict is what a Flow says about the bytes it was given.
type Verdict struct {
	// Used is how many bytes are dealt with. The others come again, with more
	// behind them.
	Used int

	// Spans are what to forward, in order. Most often there is one, over all.
	Spans []Span

	// Boundary is the last place between Spans, counted in forwarded bytes,
	// where a frame of ours may go; -1 when there is none.
	Boundary int

	// WALEnd is the end of WAL forwarded up to Boundary.
	WALEnd protocol.LSN

	// Began is set when a physical stream began: all must be said anew. Ended is set
	// when the upstream has ended one.
	Began, Ended bool

	// Held is set when the next message of a logical stream is held back: Used is up
	// to there.
	Held bool

	// Flush is the last position a standby said it has flushed; 0/0: it said none.
	Flush protocol.LSN

	// Taken are the frames taken out, without their headers.
	Taken []Taken

	// NoRelay is set when the upstream did not know the marker.
	NoRelay bool

	// Ready is set when the login is over.
	Ready bool

	// Key is the session's cancel key, when it came.
	Key *protocol.BackendKeyData

	// SystemIdentifier is the upstream's, when it came; else 0.
	SystemIdentifier uint64

	// UpstreamError is what the upstream said in an ErrorResponse, when one came.
	UpstreamError *protocol.ErrorResponse

	// Err ends the session. Used and Spans are what came before.
	Err error

	forwarded int // bytes in Spans
}

// Span is b[From:To] of what Scan was given, or Own, bytes in their place.
type Span struct {
	From, To int
	Own      []byte
}

// each calls write for every piece to forward, in order, with own at the
// boundary. b is what Scan was given.
func (v *Verdict) each(b, own []byte, write func([]byte) error) error {
	at := 0
	for _, span := range v.Spans {
		piece := span.Own
		if piece == nil {
			piece = b[span.From:span.To]
		}
		if head := v.Boundary - at; own != nil && head <= len(piece) {
			if err := write(piece[:head]); err != nil {
				return err
			}
			if err := write(own); err != nil {
				return err
			}
			own, piece, at = nil, piece[head:], v.Boundary
		}
		if err := write(piece); err != nil {
			return err
		}
		at += len(piece)
	}
	return write(own)
}

// Taken is one frame that was taken out.
type Taken struct {
	// Body is the payload of the CopyData, type byte included; for a slot message
	// the XLogData. nil when it was larger than any such message may be.
	Body []byte
}

var (
	errNotPostgres   = errors.New("the peer does not speak the PostgreSQL protocol")
	errForeignZero   = errors.New("XLogData at 0/0 that is not a slot message")
	errSidecarSpeech = errors.New("only CopyData, CopyDone and Terminate are allowed during SLOT_STATE")
)

// newFlow returns the Flow of one direction after the startup packet.
func newFlow(dir Direction, strip bool, asked uint32, conv *Conversation) *Flow {
	return &Flow{dir: dir, strip: strip, asked: asked, conv: conv}
}

// AtBoundary reports whether all that was forwarded is whole frames.
func (f *Flow) AtBoundary() bool { return !f.raw && f.rest == 0 }

// Position returns the end of WAL forwarded on this stream: START_REPLICATION's
// position before the first XLogData.
func (f *Flow) Position() protocol.LSN { return f.position }

// Unseen returns how many bytes of the current frame are still to come and are
// forwarded whatever they are. They may be passed on without a look, up to that
// many, and told to Pass.
func (f *Flow) Unseen() int {
	if f.taking || f.skipping {
		return 0
	}
	return f.rest
}

// Pass notes that n bytes have come and are forwarded, of those that Unseen
// returned.
func (f *Flow) Pass(n int) {
	f.rest -= n
	f.offset += int64(n)
	if f.rest == 0 {
		f.position = f.pending
	}
}

// Scan deals with b, which begins where the last Used ended. The Verdict is
// valid until the next call, and Taken may alias b.
func (f *Flow) Scan(b []byte) *Verdict {
	v := &f.verdict
	*v = Verdict{Spans: v.Spans[:0], Taken: v.Taken[:0], Boundary: -1}
	for v.Err == nil {
		if f.raw || f.rest > 0 {
			if v.Used == len(b) {
				break
			}
			f.pass(b, v)
			continue
		}
		if n := f.whole(b[v.Used:]); n > 0 {
			v.keep(n)
			v.Used += n
		}
		if f.mayOwn() {
			v.Boundary, v.WALEnd = v.forwarded, f.position
		}
		f.pending = f.position
		next := f.decide(b[v.Used:], v)
		switch {
		case next.err != nil:
			v.Err = fmt.Errorf("%s at byte %d: %w", f.dir, f.offset+int64(v.Used), next.err)
		case next.own != nil:
			v.Spans = append(v.Spans, Span{Own: next.own})
			v.forwarded += len(next.own)
			v.Used += next.size
		case next.drop:
			v.Used += next.size
		case next.size > 0:
			f.frame, f.rest, f.taking, f.capture, f.oversize = next.size, next.size, next.take, nil, next.size > f.maxTaken()
			f.skipping = next.skip
			if next.take || next.skip {
				f.frame = 0 // it says nothing of the next one, and has to be read itself
			}
		case !f.raw: // more bytes are needed
			f.offset += int64(v.Used)
			return v
		}
	}
	f.offset += int64(v.Used)
	return v
}

// pass deals with as much of the current frame as b has.
func (f *Flow) pass(b []byte, v *Verdict) {
	n := len(b) - v.Used
	if !f.raw {
		n = min(n, f.rest)
		f.rest -= n
	}
	switch {
	case f.taking:
		f.take(b[v.Used:v.Used+n], v)
	case !f.skipping:
		v.keep(n)
	}
	v.Used += n
	if f.rest == 0 {
		f.position, f.taking = f.pending, false
	}
}

// keep forwards the next n bytes.
func (v *Verdict) keep(n int) {
	if last := len(v.Spans) - 1; last >= 0 && v.Spans[last].Own == nil && v.Spans[last].To == v.Used {
		v.Spans[last].To += n
	} else {
		v.Spans = append(v.Spans, Span{From: v.Used, To: v.Used + n})
	}
	v.forwarded += n
}

// take keeps a piece of a frame that is taken out. A frame that lies whole in
// one buffer is not copied.
func (f *Flow) take(b []byte, v *Verdict) {
	last := f.rest == 0
	switch {
	case f.oversize:
		if last {
			v.Taken = append(v.Taken, Taken{})
		}
	case last && f.capture == nil:
		v.Taken = append(v.Taken, Taken{Body: b[protocol.FrameHeaderLen:]})
	default:
		if f.capture == nil {
			f.capture = make([]byte, 0, len(b)+f.rest)
		}
		f.capture = append(f.capture, b...)
		if last {
			v.Taken = append(v.Taken, Taken{Body: f.capture[protocol.FrameHeaderLen:]})
			f.capture = nil
		}
	}
}

// maxTaken is the size of the largest frame that is kept when taken out.
func (f *Flow) maxTaken() int {
	if f.dir == Upstream {
		return protocol.FrameHeaderLen + protocol.MaxHelperReport
	}
	return protocol.FrameHeaderLen + protocol.XLogDataHeaderLen + protocol.MaxPartBody
}

// mayOwn reports whether a frame of ours may go here, at a boundary.
func (f *Flow) mayOwn() bool {
	if f.dir == Downstream {
		return !f.strip && f.conv.MaySplice()
	}
	return f.strip && f.conv.MaySplice()
}

// MayFlush reports whether b, which the last Scan left over, is forwarded when
// the peer has ended the connection there. The begin of a frame that would
// perhaps have been taken out, or held back, is not.
func (f *Flow) MayFlush(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	switch b[0] {
	case protocol.FrameCopyData:
		return !f.conv.Marker && f.gate == nil
	case protocol.FrameDataRow:
		return f.gate == nil || !f.conv.creates
	}
	return true
}
