package relay

import (
	"context"
	"errors"
	"io"
	"time"
)

// pumpEnd is how one direction ended.
type pumpEnd struct {
	dir Direction
	err error
}

// errDeaf says that a session would not end because nothing of it moves.
var errDeaf = errors.New("the upstream has ended the connection, and nothing of what came before can be passed on")

// await returns when both pumps have ended, or when what is left of the
// session has moved nothing for the drain timeout. The caller then closes both
// connections, which ends the pumps. Its error is the first cause.
//
// A pump that waits for the downstream to read does not see the end of the
// upstream; nor would the session, so it looks now and then.
func (s *session) await(ctx context.Context, ended <-chan pumpEnd) error {
	var first error
	var moved uint64
	drain := time.NewTicker(s.relay.cfg.DrainTimeout)
	defer drain.Stop()
	ending, deaf := false, false
	stop := ctx.Done()
	for left := 2; left > 0; {
		select {
		case e := <-ended:
			left, ending = left-1, true
			err, hopeless := s.pumpEnded(e)
			if first == nil {
				first = err
			}
			if hopeless {
				return first
			}
		case <-stop:
			stop, ending = nil, true
			s.end(endShutdown())
		case <-drain.C:
			now := s.down.wrote.Load() + s.up.wrote.Load()
			rests := now == moved
			moved = now
			if ending && (rests || s.reason.Load() != nil) {
				return first
			}
			was := deaf
			deaf = !ending && rests && s.upstream.hungUp()
			if deaf && was { // else the pump may be about to see it
				return errDeaf
			}
			continue
		}
		moved = s.down.wrote.Load() + s.up.wrote.Load()
		drain.Reset(s.relay.cfg.DrainTimeout)
	}
	return first
}

// pumpEnded passes the end of one direction on to the other side. What the
// upstream said last still reaches the downstream; hopeless says that there is
// no downstream any more.
func (s *session) pumpEnded(e pumpEnd) (err error, hopeless bool) {
	var reason *ending
	var gone *downstreamGoneError
	switch {
	case errors.Is(e.err, io.EOF) && e.dir == Upstream:
		if s.held != nil {
			s.held.fail(errors.New("the downstream has closed the connection"))
		}
		s.leftAtOffer()
		s.upstream.closeWrite()
		return nil, false
	case e.dir == Upstream:
		var fault *faultError
		if errors.As(e.err, &fault) {
			if errors.Is(fault, errBinding) {
				s.relay.sawBinding(errBinding)
			}
			s.end(endFault(fault)) // the downstream pump says it
			return e.err, false
		}
		return e.err, true
	case errors.As(e.err, &gone):
		return e.err, true
	case errors.As(e.err, &reason):
		s.lastWords(reason)
		return reason.err, false
	}
	var fault *faultError
	if errors.As(e.err, &fault) {
		s.lastWords(endFault(fault))
		return e.err, false
	}
	s.downstream.closeWrite()
	if errors.Is(e.err, io.EOF) {
		s.upstreamSilent()
		return nil, false
	}
	return e.err, false
}

// upstreamSilent notes an upstream that has accepted a connection and closed it
// without a word, as a load balancer without a server does.
func (s *session) upstreamSilent() {
	s.mu.Lock()
	silent := !s.down.flow.first && !s.down.flow.raw
	s.mu.Unlock()
	if silent {
		s.relay.sawUpstream(&UpstreamError{
			Code: codeConnectionFailure, Message: "upstream " + s.facts.upstream.String() + " closes connections without an answer",
			Hint: "Check the host and port in the upstream conninfo, and that a server is behind it.",
		}, false)
	}
}

// lastWords tells the downstream why the relay ends the session. The
// downstream pump has returned, so nobody else writes.
func (s *session) lastWords(reason *ending) {
	_ = s.downstream.conn.SetWriteDeadline(time.Now().Add(s.relay.cfg.DrainTimeout))
	s.mu.Lock()
	raw := s.down.flow.raw
	s.mu.Unlock()
	if !raw {
		reason.say(s.downstream)
	}
	s.downstream.closeWrite()
	s.upstream.close()
}

// end asks the downstream pump to end the session at the next frame boundary.
func (s *session) end(reason *ending) {
	if !s.reason.CompareAndSwap(nil, reason) {
		return
	}
	s.upstream.nudge()
	if s.held != nil {
		s.held.signal()
	}
}
