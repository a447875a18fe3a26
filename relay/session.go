package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// session relays one downstream connection to one upstream connection of its
// own, for the life of both. It owns both: the handshake closes an upstream connection
// that another takes the place of, an ending its own side, and run all that is left.
type session struct {
	relay      *Relay
	id         uint64
	started    time.Time
	log        zerolog.Logger
	downstream *wire // to the walreceiver or whoever connected
	upstream   *wire // to the walsender; nil before the startup packet

	// Owned by the handshake.
	waysLeft []*tls.Config // what sslmode would try next at this upstream
	refused  bool          // the upstream has answered SSLRequest with 'N'
	raw      bool          // nothing is to be read in what passes

	// reason is why the relay ends the session, nil while it does not. The
	// downstream pump acts on it, at a frame boundary.
	reason atomic.Pointer[ending]

	// What the pumps and their neighbours hand each other, newest only.
	box       mailbox                // slot messages to splice
	report    atomic.Pointer[[]byte] // report to send upstream, a whole frame
	relaySeen atomic.Bool            // ModeStrip: a slot message came

	// mu guards what both directions know together. It is held for a scan of one
	// buffer, never while a connection is read or written.
	mu    sync.Mutex
	conv  Conversation
	facts facts

	down pump // from upstream to downstream
	up   pump // from downstream to upstream

	held *heldStream // holds logical streams back; nil: nothing does. Set before the pumps run

	// Owned by the downstream pump of ModeStrip.
	assembler protocol.Assembler

	// Owned by the upstream pump of ModeSplice.
	servedSnapshot uint64
}

// facts is what a session shows of itself.
type facts struct {
	kind         SessionKind
	startup      protocol.StartupMessage
	upstream     upstreamHost
	key          *protocol.BackendKeyData
	optedIn      bool
	noRelay      bool
	spliced      uint64
	stripped     uint64
	damaged      uint64
	lastMessage  time.Time
	helperReport *protocol.HelperReport
}

// run serves the session until it ends. nil is a clean end.
func (s *session) run(ctx context.Context) error {
	defer func() { s.downstream.close() }() // another one, once it is encrypted
	var in, fromUpstream inbox
	defer in.release()
	defer fromUpstream.release()

	entering, leave := s.relay.entering.enter(ctx, s.id)
	stop := context.AfterFunc(entering, s.interrupt)
	opened, err := s.handshake(entering, &in, &fromUpstream)
	if s.upstream != nil {
		defer s.upstream.close()
	}
	if opened && err == nil && entering.Err() == nil {
		stop()
		leave()
		return s.pumps(ctx, &in, &fromUpstream)
	}
	defer leave() // who is told why not is in the way as long
	defer stop()
	switch {
	case errors.Is(context.Cause(entering), errCrowded):
		errCrowded.say(s.downstream) // without the moment to read it: there is no room for that
		return errCrowded
	case ctx.Err() != nil:
		s.refuse(endShutdown())
		return nil
	case err != nil:
		var e *ending
		if errors.As(err, &e) {
			s.refuse(e)
		}
		return err
	default:
		return nil
	}
}

// refuse tells a downstream that has not got a session why not, and gives it a
// moment to read that: closing a socket with unread bytes in it resets the
// connection, which can overtake the words.
func (s *session) refuse(e *ending) {
	if s.downstream.unshaken() {
		return // words would begin the handshake
	}
	e.say(s.downstream)
	s.downstream.closeWrite()
	_ = s.downstream.conn.SetReadDeadline(time.Now().Add(min(s.relay.cfg.DrainTimeout, time.Second)))
	var rest [512]byte
	for {
		if _, err := s.downstream.conn.Read(rest[:]); err != nil {
			return
		}
	}
}

// interrupt makes the reads of the handshake look at their context.
func (s *session) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downstream.nudge()
	if s.upstream != nil {
		s.upstream.nudge()
	}
}

// pumps runs both directions until both have ended.
func (s *session) pumps(ctx context.Context, in, fromUpstream *inbox) error {
	strip := s.relay.cfg.Mode == ModeStrip
	raw := s.raw || s.facts.kind == KindOpaque
	flow := func(dir Direction) *Flow {
		f := newFlow(dir, strip, s.facts.startup.Version, &s.conv)
		f.raw = raw
		return f
	}
	s.mu.Lock()
	s.conv.binding = binding{downstream: s.downstream.tls != nil, upstream: s.upstream.tls != nil}
	s.down = pump{s: s, dir: Downstream, flow: flow(Downstream), from: s.upstream, to: s.downstream, in: *fromUpstream}
	s.up = pump{s: s, dir: Upstream, flow: flow(Upstream), from: s.downstream, to: s.upstream, in: *in}
	s.mu.Unlock()
	*in, *fromUpstream = inbox{}, inbox{} // the pumps' now

	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer wg.Wait()
	defer cancel()
	switch {
	case s.conv.Marker && s.relay.cfg.Mode == ModeSplice && s.relay.cfg.Slots != nil:
		s.down.speaker = &slotSpeaker{s: s}
		defer s.relay.cfg.Slots.subscribe(s.deliver)()
	case s.conv.Marker && strip && s.relay.cfg.Reports != nil:
		s.up.speaker = &reportSpeaker{s: s}
		wg.Go(func() { s.watchReports(ctx) })
	}
	if s.relay.hold != nil {
		defer s.holdBack(ctx, &wg)()
	}
	ended := make(chan pumpEnd, 2)
	wg.Go(func() { ended <- pumpEnd{Downstream, s.down.run()} })
	wg.Go(func() { ended <- pumpEnd{Upstream, s.up.run()} })
	err := s.await(ctx, ended)
	s.downstream.close()
	s.upstream.close()
	return err
}
