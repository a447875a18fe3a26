package relay

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// countingSink counts what was delivered.
type countingSink struct{ count atomic.Int64 }

func (s *countingSink) Deliver(*protocol.SlotMessage) { s.count.Add(1) }
func (s *countingSink) n() int64                      { return s.count.Load() }

func conninfoOf(r *Relay) string {
	host, port, _ := net.SplitHostPort(r.Addrs()[0].String())
	return "host=" + host + " port=" + port + " sslmode=disable"
}

// The helper's sidecar: SLOT_STATE is answered by the relay, the upstream sees
// nothing of it, and afterwards commands go upstream again.
func TestSidecar(t *testing.T) {
	source := testSource(t)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.login(marked...)
	for round := uint64(0); round < 2; round++ {
		downstream.send(query("slot_state;"))
		downstream.expect(protocol.AppendCopyBothResponse(nil))
		if round > 0 { // the newest at once
			if m, _ := downstream.slotMessage(); m.Sequence != 9 {
				t.Errorf("message %d, want 9", m.Sequence)
			}
		}
		for i := uint64(1); i <= 3; i++ {
			publishSlots(t, source, 10*round+i, int(i*300))
			if m, end := downstream.slotMessage(); m.Sequence != 10*round+i || end != 0x3000100 {
				t.Errorf("message %d at %s", m.Sequence, end)
			}
		}
		report, err := (&protocol.HelperReport{Standby: "ph1", SnapshotRequest: round + 1}).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		downstream.send(protocol.AppendCopyData(nil, report))
		eventually(t, "the report", func() (bool, string) {
			st := s.relay.Status().Sessions[0]
			return st.Kind == KindSidecar && st.HelperReport != nil && len(source.snapshot) == 1, fmt.Sprintf("%+v", st)
		})
		<-source.snapshot
		downstream.send(protocol.AppendCopyDone(nil))
		end := protocol.AppendCommandComplete(protocol.AppendCopyDone(nil), "SLOT_STATE")
		downstream.expect(protocol.AppendReadyForQuery(end))
		publishSlots(t, source, 10*round+9, 1)
	}
	downstream.send(query("IDENTIFY_SYSTEM"))
	upstream.expect(query("IDENTIFY_SYSTEM"))
}

// The answer comes in one piece when the end was asked for before the relay
// had answered.
func TestSidecarEndedAtOnce(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.login(marked...)
	downstream.send(append(query("SLOT_STATE"), protocol.AppendCopyDone(nil)...))
	end := protocol.AppendCopyDone(protocol.AppendCopyBothResponse(nil))
	end = protocol.AppendReadyForQuery(protocol.AppendCommandComplete(end, "SLOT_STATE"))
	downstream.expect(end)
	downstream.send([]byte{'X', 0, 0, 0, 4})
	upstream.expect([]byte{'X', 0, 0, 0, 4})
}

// SLOT_STATE is the upstream's to refuse where it was not asked for, or where
// something else is going on.
func TestSidecarNotAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		pairs  []string
		source bool
		before string
	}{
		"no opt-in": {[]string{"user", "a"}, true, ""},
		"no source": {marked, false, ""},
		"not idle":  {marked, true, "IDENTIFY_SYSTEM"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Mode: ModeSplice}
			if tt.source {
				cfg.Slots = testSource(t)
			}
			s := newScripted(t, cfg)
			downstream, upstream := s.login(tt.pairs...)
			if tt.before != "" {
				downstream.send(query(tt.before))
				upstream.expect(query(tt.before))
			}
			downstream.send(query("SLOT_STATE"))
			upstream.expect(query("SLOT_STATE"))
		})
	}
}

// The end of the upstream is the end of the sidecar, its last words arrive.
func TestSidecarUpstreamDies(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.login(marked...)
	downstream.send(query("SLOT_STATE"))
	downstream.expect(protocol.AppendCopyBothResponse(nil))
	e := protocol.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}
	upstream.send(e.Append(nil))
	_ = upstream.conn.Close()
	downstream.fatal("57P01", "administrator command")
}

func TestSidecarSpeech(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.login(marked...)
	downstream.send(query("SLOT_STATE"))
	downstream.expect(protocol.AppendCopyBothResponse(nil))
	downstream.send(query("SELECT 1"))
	downstream.fatal("08P01", "only CopyData, CopyDone and Terminate")
	upstream.ended()
}

// A shutdown is announced between frames, never inside one.
func TestShutdownWaitsForBoundary(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.stream(marked...)
	f := walFrame(0x3000000, 5000)
	upstream.send(f[:1000])
	downstream.expect(f[:1000])
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	eventually(t, "no listener", func() (bool, string) {
		conn, err := net.Dial("tcp", s.relay.cfg.Listen[0])
		if err == nil {
			_ = conn.Close()
		}
		return err != nil, "connected"
	})
	upstream.send(f[1000:])
	downstream.expect(f[1000:])
	downstream.fatal("57P01", "slotferry is shutting down")
	_ = downstream.conn.Close()
	<-stopped
}

// A downstream that reads nothing does not keep the relay from ending.
func TestShutdownWithStuckDownstream(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, DrainTimeout: 200 * time.Millisecond})
	_, upstream := s.stream(marked...)
	big := walFrame(0x3000000, 1<<20)
	go func() {
		for {
			if _, err := upstream.conn.Write(big); err != nil {
				return
			}
		}
	}()
	eventually(t, "a full socket", func() (bool, string) {
		at := s.relay.Status().Sessions[0].Position
		return at > 0x3000000, at.String()
	})
	s.stop()
}

// A downstream that reads nothing does not keep a session whose upstream has gone.
func TestUpstreamIsResetWhileDownstreamIsStuck(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, DrainTimeout: 200 * time.Millisecond})
	_, upstream := s.stream("user", "a", "replication", "true")
	big := walFrame(0x3000000, 1<<20)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for {
			if _, err := upstream.conn.Write(big); err != nil {
				return
			}
		}
	}()
	eventually(t, "a full socket", func() (bool, string) {
		at := s.relay.Status().Sessions[0].Position
		return at > 0x3000000, at.String()
	})
	_ = upstream.conn.SetWriteDeadline(time.Unix(1, 0))
	<-written
	_ = upstream.conn.(*net.TCPConn).SetLinger(0)
	_ = upstream.conn.Close()
	eventually(t, "the end of the session", func() (bool, string) {
		st := s.relay.Status()
		return len(st.Sessions) == 0, fmt.Sprintf("%+v", st.Sessions)
	})
}

// What the upstream said last reaches the downstream, even when the downstream
// was talking.
func TestLastWordsReachDownstream(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	for range 20 {
		downstream, upstream := s.stream("user", "a", "replication", "true")
		f := walFrame(0x3000000, 3000)
		e := protocol.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "terminating walsender"}
		downstream.send(protocol.AppendCopyData(nil, (&protocol.StandbyStatusUpdate{}).Append(nil)))
		upstream.send(append(f, e.Append(nil)...))
		_ = upstream.conn.Close() // with unread bytes: the relay gets a reset
		downstream.send(protocol.AppendCopyData(nil, (&protocol.StandbyStatusUpdate{}).Append(nil)))
		downstream.expect(f)
		downstream.fatal("57P01", "terminating walsender")
	}
}

// A half-closed downstream still gets what the upstream has to say.
func TestHalfClose(t *testing.T) {
	s := newScripted(t, Config{Mode: ModePlain})
	downstream, upstream := s.login("user", "a")
	downstream.send(query("SELECT 1"))
	_ = downstream.conn.(*net.TCPConn).CloseWrite()
	upstream.expect(query("SELECT 1"))
	upstream.ended() // its read side only
	for i := range 3 {
		f := walFrame(protocol.LSN(i+1), 100)
		upstream.send(f)
		downstream.expect(f)
	}
	_ = upstream.conn.Close()
	downstream.ended()
	eventually(t, "no session", func() (bool, string) {
		st := s.relay.Status()
		return len(st.Sessions) == 0, fmt.Sprintf("%+v", st)
	})
}
