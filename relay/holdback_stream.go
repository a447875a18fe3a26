package relay

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// holdTick is how often a stream that waits is looked after: kept alive, checked
// for its timeout and for the upstream's end. wal_sender_timeout and
// wal_receiver_timeout have to be longer.
const holdTick = time.Second

// HeldLong is how long a stream waits until that is worth a line in the log, and a
// warning of whoever reads the status.
const HeldLong = 10 * time.Second

// heldStream holds the logical streams of one session back, and the answers to
// CREATE_REPLICATION_SLOT: it asks the Flow's gate with what is known now, and waits in the pump's place while a message is
// held. A stream that is held is not read, so the walsender waits with it and no
// memory is used.
type heldStream struct {
	s     *session
	back  *holdHub
	inner speaker // of slot messages; nil most often

	pid  atomic.Uint32         // of its walsender
	want atomic.Uint64         // position that wakes the pump; 0: none
	due  atomic.Bool           // a tick has passed
	lost atomic.Pointer[error] // one end of the session has failed or closed

	creating atomic.Pointer[string] // the slot whose creation is held; nil: none is

	wake   chan struct{} // holds one
	closed chan struct{}

	// Guarded by s.mu.
	clock  holdClock
	logged bool // that it waits for long
	letGo  bool // logged
}

func newHeldStream(s *session, back *holdHub, inner speaker) *heldStream {
	return &heldStream{s: s, back: back, inner: inner, wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// scan is Flow.Scan with the gate looked after. Called with s.mu held.
func (k *heldStream) scan(f *Flow, b []byte) *Verdict {
	k.prepare(f.gate)
	v := f.Scan(b)
	k.settle(f.gate)
	return v
}

// began and within implement speaker. They are about physical streams.
func (k *heldStream) began() {
	if k.inner != nil {
		k.inner.began()
	}
}

func (k *heldStream) within(v *Verdict) (frame []byte, more bool) {
	if k.inner == nil {
		return nil, false
	}
	return k.inner.within(v)
}

// atRest implements speaker: it sends the keepalives that are owed.
func (k *heldStream) atRest() (frames []byte, more bool) {
	if k.inner != nil {
		frames, more = k.inner.atRest()
	}
	tick := k.due.Swap(false)
	switch f := k.s.down.flow; {
	case k.s.conv.logical():
		k.prepare(f.gate)
		if m := f.gate.own(tick, protocol.Micros(time.Now())); m != nil {
			frames = protocol.AppendCopyData(frames, m.Append(nil))
		}
		k.settle(f.gate)
	case tick && f.gate.blocked != protocol.InvalidLSN && k.s.upstream.hungUp():
		// No word of the client's goes upstream, as it does in a stream, to find that out.
		k.lost.CompareAndSwap(nil, &errUpstreamClosed)
	}
	return frames, more
}

var errUpstreamClosed = errors.New("the upstream has closed the connection")

// active reports whether there is something that can be held: a logical stream, or
// the answer to a CREATE_REPLICATION_SLOT. Called with s.mu held.
func (k *heldStream) active() bool {
	return k.s.conv.logical() || k.s.conv.creates || k.s.down.flow.gate.blocked != protocol.InvalidLSN
}

// prepare tells the gate what is known now.
func (k *heldStream) prepare(g *holdGate) {
	if !k.active() {
		g.end()
	}
	if key := k.s.facts.key; key != nil {
		k.pid.Store(key.PID)
		g.stream.Walsender = key.PID
	}
	if v := k.back.view.Load(); v != g.view {
		g.setView(v)
	}
	g.stream.WasListed = g.stream.WasListed || g.view.listed[g.stream.Walsender]
	g.stream.Held = k.clock.see(g.waitsFor(), time.Now())
	g.last, g.timeout, g.reached = holdDecision{}, false, false
}

// settle acts on what the gate has said since prepare.
func (k *heldStream) settle(g *holdGate) {
	held := k.clock.see(g.waitsFor(), time.Now())
	waits := g.waitsFor() != protocol.InvalidLSN
	if g.blocked != protocol.InvalidLSN {
		k.want.Store(uint64(g.blocked))
	} else {
		k.want.Store(uint64(g.withheldLast))
	}
	k.log(g, held)
	var reason *ending
	switch lost := k.lost.Load(); {
	case waits && g.last.Verdict == holdEnd:
		reason = endHeld(g.what(), g.last)
	case g.blocked != protocol.InvalidLSN && lost != nil:
		reason = endLost(g.what(), *lost)
	}
	k.creating.Store(nil)
	if g.creates && waits {
		slot := g.slot
		k.creating.Store(&slot)
	}
	if reason != nil && k.s.reason.CompareAndSwap(nil, reason) {
		k.back.counts.ended.Add(1)
	}
	if waits && k.back.view.Load() != g.view {
		k.signal() // changed between prepare and here, when nobody was to be woken
	}
}

// log writes the lines of a stream that waits for long, or is let go.
func (k *heldStream) log(g *holdGate, held time.Duration) {
	line := func(e *zerolog.Event) *zerolog.Event {
		e.Str("slot_name", g.slot)
		if g.creates {
			return e.Bool("creates_slot", true)
		}
		return e.Stringer("shown", g.shown)
	}
	log := &k.s.log
	switch {
	case g.stream.LetGo && !k.letGo:
		k.letGo = true
		k.back.counts.letGo.Add(1)
		line(log.Warn()).Dur("after", g.stream.Limit).Stringer("standbys", g.view.names).
			Str("hint", HoldTimeout.Hint()).
			Msg("a logical session is let go: the standbys have not flushed what comes next in time")
	case !g.stream.LetGo && k.letGo:
		k.letGo = false
		if g.reached {
			line(log.Info()).Msg("the standbys have caught up: the logical stream is held back again")
		}
	}
	switch {
	case held >= HeldLong && !k.logged && g.last.Verdict == holdHold:
		k.logged = true
		e := line(log.Warn()).Stringer("waits_for", g.last.At).Strs("by", g.last.By).Str("reason", string(g.last.Reason))
		if hint := g.last.Reason.Hint(); hint != "" {
			e = e.Str("hint", hint)
		}
		e.Msg("a logical session is held back")
	case k.logged && g.waitsFor() == protocol.InvalidLSN:
		k.logged = false
		line(log.Info()).Msg("the logical session goes on")
	}
}

// changed wakes the stream if the view lets it go on. The hub calls it. All else
// that is new is found at the next tick.
func (k *heldStream) changed(v *holdView) {
	if want := k.want.Load(); want != 0 && v.listed[k.pid.Load()] && uint64(v.position) >= want {
		k.signal()
	}
}

// signal wakes the pump, wherever it waits.
func (k *heldStream) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
	k.s.upstream.nudge()
}

// wait is what the pump does in place of a read while a message is held.
func (k *heldStream) wait() error {
	select {
	case <-k.wake:
		return nil
	case <-k.closed:
		return net.ErrClosed
	}
}

// fail notes that one end of the session is lost. A stream that is held does not
// read, and would not see it.
func (k *heldStream) fail(err error) {
	k.lost.CompareAndSwap(nil, &err)
	k.signal()
}

// cancel ends a session that is held, because its client has asked for the end of
// what it waits for. The walsender cannot: it has done its part, or has its answer
// behind what is held.
func (k *heldStream) cancel() {
	k.s.mu.Lock()
	g := k.s.down.flow.gate
	if g.blocked != protocol.InvalidLSN && k.s.reason.CompareAndSwap(nil, endCanceled(g.what())) {
		k.back.counts.ended.Add(1)
	}
	k.s.mu.Unlock()
	k.signal()
}

// tick wakes the pump now and then while the stream waits.
func (k *heldStream) tick(ctx context.Context) {
	t := time.NewTicker(holdTick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if k.want.Load() != 0 {
				k.due.Store(true)
				k.signal()
			}
		}
	}
}
