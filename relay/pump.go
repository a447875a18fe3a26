package relay

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// pump moves one direction of a session. Its goroutine is the only reader of
// from and the only writer of to.
type pump struct {
	s    *session
	dir  Direction
	flow *Flow // guarded by s.mu
	from *wire
	to   *wire
	in   inbox
	pipe pipe // for the rest of large frames

	// speaker says what of ours goes between the frames; nil when nothing does.
	speaker speaker

	held *heldStream // holds logical streams back; nil: nothing does

	more    bool // the speaker has more to say
	waits   bool // the next message is held back
	discard bool // the writing side is gone: read to the end, forward nothing

	wrote atomic.Uint64 // bytes, our own included
}

// speaker puts frames of ours into a pump's direction. Its methods are called
// with s.mu held.
type speaker interface {
	// began says that a physical stream has begun.
	began()
	// within returns a frame to put into a stream that moves, or nil, and
	// whether there is more to say.
	within(v *Verdict) (frame []byte, more bool)
	// atRest returns what to put where the stream rests, and whether there is
	// more to say at once.
	atRest() (frames []byte, more bool)
}

// run forwards until one side ends. io.EOF is the clean end of from. Where
// there is more of our own to say it looks for bytes to forward in between:
// WAL comes first.
func (p *pump) run() error {
	defer p.in.release()
	defer p.pipe.close()
	for first := true; ; first = false {
		if err := p.whileHeld(); err != nil {
			return err
		}
		unseen, err := p.read(first)
		switch {
		case err == nil && unseen > 0:
			err = p.forwardUnseen(unseen)
		case err == nil:
			err = p.forward()
		case isTimeout(err):
			p.from.quiet()
			err = p.speak()
		case errors.Is(err, errNoBytes):
			err = p.speak()
		case errors.Is(err, io.EOF):
			return p.finish()
		default:
			return fmt.Errorf("read from %s: %w", p.peer(), err)
		}
		if err != nil {
			return err
		}
	}
}

// read waits for bytes and puts them into the inbox; or, where nobody needs to
// see them, into the pipe, and says how many. The startup may have left some over.
func (p *pump) read(first bool) (unseen int, err error) {
	if first && p.in.n > 0 {
		return 0, nil
	}
	if p.unseen() {
		n, err := p.pipe.fill(p.from, p.flow.Unseen())
		if !errors.Is(err, errNoPipe) {
			return n, err
		}
	}
	p.in.most = p.readSize()
	return 0, p.from.read(&p.in, !p.more)
}

// peer names the side that is read.
func (p *pump) peer() string {
	if p.dir == Downstream {
		return "upstream"
	}
	return "downstream"
}

// forward deals with what was read.
func (p *pump) forward() error {
	b := p.in.bytes()
	p.s.mu.Lock()
	v := p.scan(b)
	var own []byte
	p.more = false
	if p.speaker != nil && v.Began {
		p.speaker.began()
	}
	if p.speaker != nil && v.Boundary >= 0 {
		own, p.more = p.speaker.within(v)
		p.more = p.more && p.flow.AtBoundary()
	}
	answer := p.dir == Upstream && p.s.conv.sidecarMoved()
	ended := p.dir == Upstream && p.s.conv.copyEnded
	p.s.mu.Unlock()

	p.s.relay.metrics.moved(p.dir, v.Used)
	p.s.took(p.dir, v)
	if answer {
		p.s.upstream.nudge() // the other pump writes downstream
	}
	if ended && p.s.held != nil {
		p.s.held.signal() // the other pump need not wait any more
	}
	// A frame of ours leaves in one packet with what it stands between.
	left, goesOn := v.forwarded+len(own), p.unseen()
	err := v.each(b, own, func(piece []byte) error {
		left -= len(piece)
		p.to.goesOn(left > 0 || goesOn)
		return p.write(piece)
	})
	if err != nil {
		return err
	}
	p.s.flushed(v)
	p.in.consume(v.Used)
	if v.Err != nil {
		return &faultError{v.Err}
	}
	return p.stop()
}

// scan is called with s.mu held.
func (p *pump) scan(b []byte) *Verdict {
	if p.held == nil {
		return p.flow.Scan(b)
	}
	v := p.held.scan(p.flow, b)
	p.waits = v.Held
	return v
}

// whileHeld returns when the next message is not held back any more. Until then
// nothing is read, and what there is to say is said.
func (p *pump) whileHeld() error {
	for p.waits {
		if err := p.held.wait(); err != nil {
			return err
		}
		if err := p.speak(); err != nil {
			return err
		}
		if err := p.forward(); err != nil {
			return err
		}
	}
	return nil
}

// speak says what there is to say where the stream rests.
func (p *pump) speak() error {
	p.more = false
	if err := p.stop(); err != nil || p.speaker == nil {
		return err
	}
	var frames []byte
	p.s.mu.Lock()
	if p.flow.AtBoundary() {
		frames, p.more = p.speaker.atRest()
	}
	p.s.mu.Unlock()
	if err := p.write(frames); err != nil {
		return err
	}
	return p.stop()
}

// finish forwards what is left when from has ended.
func (p *pump) finish() error {
	p.s.mu.Lock()
	flush := p.flow.MayFlush(p.in.bytes())
	p.s.mu.Unlock()
	if flush {
		if err := p.write(p.in.bytes()); err != nil {
			return err
		}
	}
	return io.EOF
}

// stop returns the reason to end the session, once the downstream stands at a
// frame boundary and can be told.
func (p *pump) stop() error {
	reason := p.s.reason.Load()
	if reason == nil || p.dir == Upstream {
		return nil // the other pump ends the session
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.flow.AtBoundary() && !p.flow.raw {
		return nil
	}
	return reason
}

// write writes to the other side. When that has gone the upstream pump reads
// on and forwards nothing: the upstream's last words may still be on their
// way to the downstream, and closing would destroy them.
func (p *pump) write(b []byte) error {
	if len(b) == 0 || p.discard {
		return nil
	}
	err := p.to.write(b)
	if err != nil && p.dir == Upstream {
		p.discard = true
		p.s.log.Debug().Err(err).Msg("write to upstream failed")
		if p.s.held != nil {
			p.s.held.fail(fmt.Errorf("write to upstream: %w", err))
		}
		return nil
	}
	if err != nil {
		return &downstreamGoneError{err}
	}
	p.wrote.Add(uint64(len(b)))
	return nil
}

// downstreamGoneError says that nobody is left to forward to.
type downstreamGoneError struct{ err error }

func (e *downstreamGoneError) Error() string { return "write to downstream: " + e.err.Error() }
func (e *downstreamGoneError) Unwrap() error { return e.err }
