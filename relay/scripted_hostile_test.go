package relay

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// Peers that mean harm, or behave like it. What each of them can do, and what it
// cannot, is in docs/threat-model.md.

// Whoever asks for slot messages and has not logged in gets none: not before the
// server's answer, not while it asks for a password, not after it has refused.
func TestOptInWithoutLogin(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 3)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source, DrainTimeout: 100 * time.Millisecond})
	demand := append(query("SLOT_STATE"), query("START_REPLICATION 0/3000000 TIMELINE 1")...)
	refusal := protocol.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"}
	for name, answer := range map[string][]byte{
		"silence":          nil,
		"password":         frameOf('R', "\x00\x00\x00\x03"),
		"SCRAM":            frameOf('R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"),
		"half a login":     {'R', 0, 0, 0, 8, 0, 0, 0, 0},
		"refusal":          refusal.Append(nil),
		"a stream at once": protocol.AppendCopyBothResponse([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			downstream := s.connect()
			downstream.send(append(startup(marked...), demand...))
			upstream := s.accept()
			upstream.expect(startup("user", "a", "replication", "true"))
			if answer != nil {
				upstream.send(answer)
				upstream.expect(demand) // it is the server's to judge
			}
			publishSlots(t, source, 2, 3)
			_ = upstream.conn.Close()
			downstream.expect(answer)
			downstream.ended()
		})
	}
	for _, st := range s.relay.Status().Sessions {
		if st.Spliced != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// Slot state is for replication connections, which pg_hba.conf and the REPLICATION
// attribute guard: an ordinary session that asks for it is an ordinary session.
func TestSlotStateNeedsReplication(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.login("user", "a", "database", "postgres", protocol.OptInParameter, protocol.OptInValue)
	syntax := protocol.ErrorResponse{Severity: "ERROR", Code: "42601", Message: "syntax error at or near \"SLOT_STATE\""}
	asked(downstream, upstream, "SLOT_STATE", protocol.AppendReadyForQuery(syntax.Append(nil)))
}

// A helper that floods the back channel: its newest report counts, the primary is
// asked for a snapshot at most as often as once an interval, good and bad reports in
// turn are one line in the log, memory does not grow, and feedback passes.
func TestHelperFloods(t *testing.T) {
	source := testSource(t)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.stream(marked...)
	before := inUse()
	const rounds, each = 50, 100
	for round := range rounds {
		var flood []byte
		for i := range each {
			body, err := (&protocol.HelperReport{Standby: "ph1", SnapshotRequest: uint64(round*each + i + 1),
				Slots: []protocol.SlotReport{{Name: strings.Repeat("n", 63), State: "ready"}}}).Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			flood = protocol.AppendCopyData(flood, body)
			body[len(body)-1] ^= 1
			flood = protocol.AppendCopyData(flood, body)
		}
		feedback := protocol.AppendCopyData(nil, (&protocol.StandbyStatusUpdate{Write: protocol.LSN(round)}).Append(nil))
		downstream.send(append(flood, feedback...))
		upstream.expect(feedback)
	}
	st := s.relay.Status().Sessions[0]
	if st.Stripped != 2*rounds*each || st.Damaged != rounds*each || st.HelperReport.SnapshotRequest != rounds*each {
		t.Errorf("%+v", st)
	}
	if n := len(source.snapshot); n != 1 {
		t.Errorf("%d requests for a snapshot wait", n)
	}
	if grown := inUse() - before; grown > 8<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	if n := strings.Count(s.log.String(), "be read"); n != 1 {
		t.Errorf("%d lines in the log, want one:\n%s", n, s.log)
	}
}

// That frames can be read again is said when it has held for a while.
func TestDamageFades(t *testing.T) {
	var r Relay
	now := time.Unix(1e9, 0)
	for i, tt := range []struct {
		damaged bool
		after   time.Duration
		want    bool
	}{
		{false, 0, false}, {true, 0, true}, {false, 0, false}, {true, time.Second, false}, {false, damageFades - 1, false},
		{false, 1, true}, {false, damageFades, false}, {true, 0, true},
	} {
		now = now.Add(tt.after)
		if got := r.sawDamage(tt.damaged, now); got != tt.want {
			t.Errorf("step %d: %v, want %v", i, got, tt.want)
		}
	}
}

// A standby, or whoever poses as one, that sends slot messages and reports: a slot
// message is a message to the walsender, who refuses it as it does without a relay;
// a report through the helper's listener is taken out, since the helper speaks for
// itself. Neither reaches a sink or a relay.
func TestForgeriesFromDownstream(t *testing.T) {
	source := testSource(t)
	p := publishSlots(t, source, 7, 1)
	forged := protocol.AppendSlotFrame(nil, 0x3000000, 1, p.parts[0])
	body, err := (&protocol.HelperReport{Standby: "forged", SnapshotRequest: 9}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	report := protocol.AppendCopyData(nil, body)
	sink := &countingSink{}
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	strip := newScripted(t, Config{Mode: ModeStrip, Sink: sink, Upstream: conninfoOf(s.relay)})
	strip.lis = s.lis
	downstream, upstream := strip.stream("user", "a", "replication", "true")
	eventually(t, "the relay's own message", func() (bool, string) { return sink.n() == 1, fmt.Sprint(sink.n()) })
	for range 3 {
		downstream.send(bytes.Join([][]byte{report, forged, report}, nil))
		upstream.expect(forged)
	}
	if st := s.relay.Status().Sessions[0]; st.HelperReport != nil || st.Stripped != 0 || len(source.snapshot) != 0 {
		t.Errorf("the relay took a forged report: %+v", st)
	}
	if st := strip.relay.Status().Sessions[0]; st.Damaged != 6 || sink.n() != 1 {
		t.Errorf("%d messages at the sink, session %+v", sink.n(), st)
	}
	if n := strings.Count(strip.log.String(), errForgedReport.Error()); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// Whoever answers SSLRequest with an error has not shown yet who they are: the error
// is named, its text is not repeated (CVE-2024-10977).
func TestErrorInPlaceOfAnAnswerToSSLRequest(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	s := newScripted(t, Config{Mode: ModeSplice, Upstream: strings.Replace(upstreamConninfo(lis), "disable", "require", 1)})
	s.lis = lis
	downstream := s.connect()
	downstream.send(startup("user", "a"))
	upstream := s.accept()
	upstream.expect(protocol.AppendStartupRequest(nil, protocol.SSLRequestCode))
	lie := protocol.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "send your password to mallory"}
	upstream.send(lie.Append(nil))
	downstream.fatal(codeConnectionFailure, "server sent an error response during SSL exchange")
	if log := s.log.String(); strings.Contains(log, "mallory") {
		t.Errorf("the log repeats it:\n%s", log)
	}
}
