package relay

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

const (
	standbyPID    = 42 // of the standby's walsender
	subscriberPID = 43
)

// heldScript is a relay that holds logical streams back, between scripted peers: a
// standby's session and a subscriber's.
type heldScript struct {
	*scripted
	standby, walsender     *peer // the ends of the physical session
	subscriber, logicalEnd *peer // the ends of the logical session
}

func newHeldScript(t *testing.T, change func(*HoldBack)) *heldScript {
	t.Helper()
	source, err := NewSlotSource(SlotSourceConfig{Conninfo: "host=127.0.0.1 user=x dbname=x", Walsenders: true})
	if err != nil {
		t.Fatal(err)
	}
	hold := &HoldBack{Standbys: mustNames(t, "s1"), Source: source}
	if change != nil {
		change(hold)
	}
	s := &heldScript{scripted: newScripted(t, Config{Mode: ModePlain, RefuseTLS: true, HoldBack: hold})}
	s.standby, s.walsender = s.loginAs(standbyPID, "user", "a", "replication", "true", "application_name", "s1")
	s.start(s.standby, s.walsender, `START_REPLICATION SLOT "phys" 0/1000000 TIMELINE 1`)
	s.subscriber, s.logicalEnd = s.loginAs(subscriberPID, "user", "a", "replication", "database", "database", "d")
	s.start(s.subscriber, s.logicalEnd, `START_REPLICATION SLOT "sub" LOGICAL 0/100 (proto_version '1')`)
	s.list(standbyPID, subscriberPID)
	return s
}

// loginAs goes through a startup with the walsender's pid in it.
func (s *heldScript) loginAs(pid uint32, pairs ...string) (downstream, upstream *peer) {
	s.t.Helper()
	downstream = s.connect()
	downstream.send(startup(pairs...))
	upstream = s.accept()
	upstream.startup()
	answer := append([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0}, 'K', 0, 0, 0, 12)
	answer = append(binary.BigEndian.AppendUint32(answer, pid), 1, 2, 3, 4)
	answer = protocol.AppendReadyForQuery(answer)
	upstream.send(answer)
	downstream.expect(answer)
	return downstream, upstream
}

func (s *heldScript) start(downstream, upstream *peer, command string) {
	s.t.Helper()
	downstream.send(query(command))
	upstream.expect(query(command))
	upstream.send(protocol.AppendCopyBothResponse(nil))
	downstream.expect(protocol.AppendCopyBothResponse(nil))
}

// list is what the slot source reads: walsenders that stream, by their pids.
func (s *heldScript) list(pids ...uint32) {
	read := new(walsenders)
	for _, pid := range pids {
		w := walsender{pid: pid, physical: pid == standbyPID}
		w.Streaming = true
		read.list = append(read.list, w)
	}
	s.relay.hold.walsendersRead(read)
}

// flush has the standby say what it has flushed, and checks that the walsender gets
// its words.
func (s *heldScript) flush(lsn protocol.LSN) {
	s.t.Helper()
	m := protocol.StandbyStatusUpdate{Write: lsn, Flush: lsn, Apply: 1}
	frame := protocol.AppendCopyData(nil, m.Append(nil))
	s.standby.send(frame)
	s.walsender.expect(frame)
}

// reaches has the standbys flush, and waits until the relay goes by that: it does
// after the walsender has the standby's words.
func (s *heldScript) reaches(lsn protocol.LSN) {
	s.t.Helper()
	s.flush(lsn)
	eventually(s.t, "the standbys' position", func() (bool, string) {
		at := s.relay.Status().HoldBack.Position
		return at == lsn, at.String()
	})
}

// data sends an XLogData to the subscriber, who does not get it yet if it waits.
func (s *heldScript) data(lsn string) (frame []byte) {
	frame = streamFrame(s.t, "XLogData", lsn)
	s.logicalEnd.send(frame)
	return frame
}

// waits waits until the stream is held, and returns how.
func (s *heldScript) waits() (st SessionStatus) {
	s.t.Helper()
	eventually(s.t, "a stream that is held", func() (bool, string) {
		list := s.relay.Status().Sessions
		st = list[len(list)-1]
		return st.HoldBack != nil && st.HoldBack.State == "held", fmt.Sprintf("%+v", st)
	})
	return st
}

// keepalive reads one that the relay made.
func (s *heldScript) keepalive() (m protocol.PrimaryKeepalive) {
	s.t.Helper()
	kind, body := s.subscriber.frame()
	if kind != 'd' || body[0] != protocol.MsgPrimaryKeepalive || m.Decode(body[1:]) != nil {
		s.t.Fatalf("got %c %q, want a keepalive", kind, body)
	}
	return m
}

// gets reads up to a frame that was sent. Keepalives may come before it, of which
// there are the more the slower the machine is; nothing else may.
func (s *heldScript) gets(frame []byte) {
	s.t.Helper()
	for {
		kind, body := s.subscriber.frame()
		if kind == 'd' && string(protocol.AppendCopyData(nil, body)) == string(frame) {
			return
		}
		if kind != 'd' || body[0] != protocol.MsgPrimaryKeepalive {
			s.t.Fatalf("got %c %q, want %q", kind, body, frame)
		}
	}
}

// The standby's own words, on their way through the relay, let the stream go on.
// Its WAL and its words pass unchanged.
func TestStandbysWordsLetGoOn(t *testing.T) {
	s := newHeldScript(t, nil)
	s.flush(0x300)
	passes := s.data("0/300")
	s.subscriber.expect(passes)
	waits := s.data("0/301")
	st := s.waits()
	if st.Position != 0x300 || st.HoldBack.WaitsFor != 0x301 || st.HoldBack.Reason != HoldBehind ||
		len(st.HoldBack.By) != 1 || st.HoldBack.By[0] != "s1" || st.HoldBack.Slot != "sub" || st.HoldBack.Since == nil {
		t.Errorf("status %+v %+v", st, st.HoldBack)
	}
	wal := walFrame(0x9000000, 1000)
	s.walsender.send(wal)
	s.standby.expect(wal)
	s.flush(0x301)
	s.gets(waits)
	if st := s.relay.Status().HoldBack; st.Position != 0x301 || !st.Known || len(st.Connected) != 1 || !st.Connected[0].Relayed ||
		st.Connected[0].Slot != "phys" || st.Connected[0].ApplicationName != "s1" {
		t.Errorf("status %+v", st)
	}

	// A position that was withheld is shown as soon as the standbys have it.
	s.logicalEnd.send(streamFrame(t, "PrimaryKeepalive", "0/400 reply"))
	if m := s.keepalive(); m.WALEnd != 0x301 || !m.ReplyRequested {
		t.Errorf("keepalive %+v", m)
	}
	s.waits()
	s.flush(0x400)
	if m := s.keepalive(); m.WALEnd != 0x400 {
		t.Errorf("keepalive %+v", m)
	}
}

// A stream that is held is kept alive, and what the subscriber answers goes
// upstream: byte for byte, and nothing that it has not said (I-12).
func TestHeldStreamIsKeptAlive(t *testing.T) {
	s := newHeldScript(t, nil)
	s.flush(0x300)
	frame := s.data("0/400")
	for range 2 {
		// Where it began: the walsender has given no other position.
		if m := s.keepalive(); m.WALEnd != 0x100 || !m.ReplyRequested {
			t.Errorf("keepalive %+v", m)
		}
		m := protocol.StandbyStatusUpdate{Write: 7, Flush: 5, Apply: 3, SendTime: 1}
		reply := protocol.AppendCopyData(nil, m.Append(nil))
		s.subscriber.send(reply)
		s.logicalEnd.expect(reply)
	}
	s.flush(0x400)
	s.gets(frame)
}

// A standby that is gone counts for nothing at once; one that comes back has to say
// anew what it has.
func TestStandbyThatIsGoneCountsForNothing(t *testing.T) {
	s := newHeldScript(t, nil)
	s.flush(0x300)
	frame := s.data("0/300")
	s.subscriber.expect(frame)
	_ = s.standby.conn.Close()
	_ = s.walsender.conn.Close()
	eventually(t, "the session to end", func() (bool, string) {
		st := s.relay.Status()
		return len(st.Sessions) == 1 && st.HoldBack.Position == 0, fmt.Sprintf("%+v", st)
	})
	frame = s.data("0/200") // it had that, on a disk that may be lost
	if st := s.waits(); st.HoldBack.Reason != HoldTooFew {
		t.Errorf("held because of %s", st.HoldBack.Reason)
	}
	s.standby, s.walsender = s.loginAs(standbyPID+100, "user", "a", "replication", "true", "application_name", "s1")
	s.start(s.standby, s.walsender, `START_REPLICATION SLOT "phys" 0/1000000 TIMELINE 1`)
	read := &walsenders{list: []walsender{{pid: subscriberPID}, {pid: standbyPID + 100, physical: true}}}
	read.list[1].Streaming, read.list[1].Flush = true, 0x900 // as the server may show of its former life
	s.relay.hold.walsendersRead(read)
	if p := s.relay.Status().HoldBack.Position; p != 0 {
		t.Errorf("position %v before the standby has said anything", p)
	}
	s.flush(0x200)
	s.gets(frame)
}

// What cannot come is not waited for: the session ends, and the subscriber is told
// why. It gets nothing of what was held.
func TestHeldStreamEnds(t *testing.T) {
	for _, test := range []struct {
		name       string
		do         func(s *heldScript)
		code, text string
	}{
		{"walsender gone", func(s *heldScript) { s.list(standbyPID) }, codeConnectionFailure, "walsender is gone"},
		{"upstream shuts down", func(s *heldScript) { s.relay.hold.upstreamEnding() }, codeAdminShutdown, "the upstream is shutting down"},
		{"relay shuts down", func(s *heldScript) { go s.stop() }, codeAdminShutdown, "slotferry is shutting down"},
		{"upstream dead", func(s *heldScript) { _ = s.logicalEnd.conn.Close() }, codeConnectionFailure, "write to upstream"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newHeldScript(t, nil)
			s.flush(0x300)
			s.data("0/400")
			s.waits()
			test.do(s)
			for {
				kind, body := s.subscriber.frame()
				if kind == 'E' {
					var e protocol.ErrorResponse
					if err := e.Decode(body); err != nil || e.Code != test.code {
						t.Errorf("got %+v, %v", e, err)
					}
					break
				}
				if kind != 'd' || body[0] != protocol.MsgPrimaryKeepalive {
					t.Fatalf("got %c %q", kind, body)
				}
				m := protocol.StandbyStatusUpdate{Write: 7}
				_, _ = s.subscriber.conn.Write(protocol.AppendCopyData(nil, m.Append(nil)))
			}
			s.subscriber.ended()
		})
	}
}

// A subscriber that goes away while it is held leaves nothing behind.
func TestSubscriberGoesAwayWhileHeld(t *testing.T) {
	s := newHeldScript(t, nil)
	s.flush(0x300)
	s.data("0/400")
	s.waits()
	_ = s.subscriber.conn.Close()
	eventually(t, "the session to end", func() (bool, string) {
		st := s.relay.Status().Sessions
		return len(st) == 1, fmt.Sprintf("%+v", st)
	})
	s.logicalEnd.ended()
}

// A stream that is held for longer than allowed is let go, which is said once and
// counted; it is held back again when the standbys have caught up.
func TestHoldBackTimeout(t *testing.T) {
	s := newHeldScript(t, func(h *HoldBack) { h.Timeout = time.Millisecond })
	s.reaches(0x300)
	s.gets(s.data("0/400"))
	s.gets(s.data("0/280")) // a change that the standby has: it has caught up with nothing
	s.gets(s.data("0/500"))
	s.reaches(0x480)
	s.gets(s.data("0/470"))
	if st := s.relay.Status(); st.HoldBack.LetGo != 1 || st.Sessions[1].HoldBack.State != "let_go" {
		t.Errorf("status %+v, session %+v", st.HoldBack, st.Sessions[1].HoldBack)
	}
	s.reaches(0x600)
	s.gets(s.data("0/580"))
	if st := s.relay.Status().Sessions[1].HoldBack; st.State != "passing" {
		t.Errorf("state %s", st.State)
	}
	for text, want := range map[string]int{"is let go": 1, "held back again": 1} {
		if got := strings.Count(s.log.String(), text); got != want {
			t.Errorf("%d lines with %q, want %d", got, text, want)
		}
	}
}

// A pooler between relay and server gives sessions numbers of its own, by which the
// slot source never finds them. Nothing passes, and after a while log and status
// say what to do.
func TestWalsenderThatIsNeverListed(t *testing.T) {
	t.Parallel()
	s := newHeldScript(t, nil)
	s.list(standbyPID)
	s.flush(0x300)
	s.data("0/200")
	if st := s.waits(); st.HoldBack.Reason != HoldUnlisted || st.HoldBack.Hint != "" {
		t.Errorf("at first: %+v", st.HoldBack)
	}
	poll.Require(t, 3*HeldLong, "the hint", func(context.Context) (bool, string) {
		st := s.waits()
		return st.HoldBack.Hint == HoldUnlisted.Hint() && strings.Contains(s.log.String(), HoldUnlisted.Hint()), fmt.Sprintf("%+v", st.HoldBack)
	})
	if st := s.waits(); st.HoldBack.Reason != HoldUnlisted || st.Position != 0x100 {
		t.Errorf("after a while: %+v %+v", st, st.HoldBack)
	}
}
