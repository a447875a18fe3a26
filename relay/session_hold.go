package relay

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// upstreamAnswers bounds how long the upstream of a logical stream may leave bytes
// unacknowledged where tcp_user_timeout does not say. A stream that is held is not
// read, and the relay itself keeps the subscriber's patience: without this a host
// that has lost its power would be waited for, for as long as TCP tries again.
const upstreamAnswers = 60 * time.Second

// holdBack has the session take part in hold-back: a standby's is listened to, a
// logical one is held back. Both are looked for by what the session does, since a
// connection to a database may stream WAL, too. It is called before the pumps run;
// end is to be called when they are to return.
func (s *session) holdBack(ctx context.Context, wg *sync.WaitGroup) (end func()) {
	hub := s.relay.hold
	if s.facts.kind != KindPhysical && s.facts.kind != KindLogical {
		return func() {}
	}
	s.up.flow.watch = true
	gone := func() {
		if pid := s.walsender(); pid != 0 {
			hub.ended(pid, s.id)
		}
	}
	if s.facts.kind == KindPhysical {
		return gone
	}
	conn := s.upstream.conn
	if s.upstream.sock != nil {
		conn = s.upstream.sock.base.conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok && s.relay.addrs.userTimeout == 0 {
		setUserTimeout(tcp, upstreamAnswers)
	}
	k := newHeldStream(s, hub, s.down.speaker)
	s.mu.Lock()
	s.held, s.down.held, s.down.speaker = k, k, k
	s.down.flow.gate = new(holdGate)
	s.down.flow.gate.setView(hub.view.Load())
	s.mu.Unlock()
	cancel := hub.add(k)
	wg.Go(func() { k.tick(ctx) })
	return func() {
		close(k.closed)
		cancel()
		gone()
	}
}

// walsender returns the pid of the upstream's end of this session; 0 before the
// login is over.
func (s *session) walsender() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts.key == nil {
		return 0
	}
	return s.facts.key.PID
}

// standbyBegan notes the begin of a physical stream for hold-back.
func (s *session) standbyBegan() {
	if s.relay.hold == nil {
		return
	}
	s.mu.Lock()
	standby := Standby{Slot: s.conv.command.Slot}
	standby.ApplicationName, _ = s.facts.startup.Get("application_name")
	s.mu.Unlock()
	s.relay.hold.began(s.walsender(), s.id, standby)
}

// flushed notes what a standby has said it has flushed.
func (s *session) flushed(v *Verdict) {
	if v.Flush != protocol.InvalidLSN {
		s.standbyFlushed(v.Flush)
	}
}

// standbyFlushed notes it for hold-back; InvalidLSN at the end of a stream.
func (s *session) standbyFlushed(lsn protocol.LSN) {
	if s.relay.hold != nil {
		s.relay.hold.flushed(s.walsender(), s.id, lsn)
	}
}
