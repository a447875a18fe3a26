package relay

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// What a server may answer besides a stream, and what two sides may say that this
// relay has never heard of: all of it passes.

// frameOf builds a frame.
func frameOf(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// ends is CommandComplete and ReadyForQuery.
func ends(tag string) []byte {
	return protocol.AppendReadyForQuery(protocol.AppendCommandComplete(nil, tag))
}

// asked sends a command through the relay and an answer back.
func asked(downstream, upstream *peer, command string, answer []byte) {
	downstream.t.Helper()
	downstream.send(query(command))
	upstream.expect(query(command))
	upstream.send(answer)
	downstream.expect(answer)
}

// START_REPLICATION of a timeline that ends where it is asked for answers with a
// result set and no stream (StartReplication, walsender.c). Nothing is put in
// there, and the stream that is asked for next is one.
func TestStartReplicationAnswersWithResultSet(t *testing.T) {
	source := testSource(t)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	strip := newScripted(t, Config{Mode: ModeStrip, Upstream: conninfoOf(s.relay)})
	strip.lis = s.lis
	downstream, upstream := strip.login("user", "a", "replication", "true")
	next := frameOf('T', "\x00\x02next_tli\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x14\x00\x08\xff\xff\xff\xff\x00\x00"+
		"next_tli_startpos\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")
	next = append(next, frameOf('D', "\x00\x02\x00\x00\x00\x012\x00\x00\x00\x090/3000000")...)
	next = append(next, ends("START_STREAMING")...)
	for i := range uint64(3) {
		publishSlots(t, source, i+1, 1)
		asked(downstream, upstream, "START_REPLICATION SLOT \"s\" 0/3000000 TIMELINE 1", next)
	}
	if st := s.relay.Status().Sessions[0]; st.State != "idle" || st.Spliced != 0 {
		t.Errorf("session %+v", st)
	}
	w := protocol.AppendCopyBothResponse(nil)
	asked(downstream, upstream, "START_REPLICATION SLOT \"s\" 0/3000000 TIMELINE 2", w)
	eventually(t, "a slot message in the stream", func() (bool, string) {
		st := strip.relay.Status().Sessions[0]
		return st.Stripped > 0 && st.State == "streaming", fmt.Sprintf("%+v", st)
	})
}

// An error right behind CopyBothResponse, as for WAL that has been removed, and
// then commands on the same connection.
func TestErrorBehindCopyBothResponse(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.login(marked...)
	e := protocol.ErrorResponse{Severity: "ERROR", Code: "58P01", Message: "requested WAL segment has already been removed"}
	failed := append(protocol.AppendCopyBothResponse(nil), e.Append(nil)...)
	failed = protocol.AppendReadyForQuery(failed)
	for range 3 {
		asked(downstream, upstream, "START_REPLICATION 0/1000000 TIMELINE 1", failed)
		asked(downstream, upstream, "IDENTIFY_SYSTEM", ends("IDENTIFY_SYSTEM"))
	}
	if st := s.relay.Status().Sessions[0]; st.Spliced != 0 || st.State != "idle" {
		t.Errorf("session %+v", st)
	}
}

// CopyDone from either side first, and three streams on one connection.
func TestCopyDoneBothWays(t *testing.T) {
	source := testSource(t)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	strip := newScripted(t, Config{Mode: ModeStrip, Upstream: conninfoOf(s.relay)})
	strip.lis = s.lis
	downstream, upstream := strip.login("user", "a", "replication", "true")
	done := protocol.AppendCopyDone(nil)
	for round := range uint64(6) {
		publishSlots(t, source, round+1, 1)
		asked(downstream, upstream, "START_REPLICATION 0/3000000 TIMELINE 1", protocol.AppendCopyBothResponse(nil))
		f := walFrame(0x3000000, 500)
		upstream.send(f)
		downstream.expect(f)
		eventually(t, "a slot message in this stream", func() (bool, string) {
			st := strip.relay.Status().Sessions[0]
			return st.Stripped > round, fmt.Sprintf("%+v", st)
		})
		first, second := downstream, upstream
		if round%2 == 0 {
			first, second = upstream, downstream
		}
		first.send(done)
		second.expect(done)
		second.send(done)
		first.expect(done)
		upstream.send(ends("START_STREAMING"))
		downstream.expect(ends("START_STREAMING"))
		asked(downstream, upstream, "TIMELINE_HISTORY 2", ends("TIMELINE_HISTORY"))
	}
}

// Messages of a version to come, and frames that no version has: what is only
// relayed is not judged.
func TestUnknownMessagesPass(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	strip := newScripted(t, Config{Mode: ModeStrip, Upstream: conninfoOf(s.relay)})
	strip.lis = s.lis
	downstream, upstream := strip.stream("user", "a", "replication", "true")
	for _, body := range []string{
		"", "z", "\x00", "w", "w\x00\x00\x00", "k", "k123", "f", "fSLT", "fsomething else", "s\x00\x00\x00\x00", "p\x01",
		"r", "SLTFERRY", "n\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		f := frameOf('d', body)
		upstream.send(f)
		downstream.expect(f)
		downstream.send(f)
		upstream.expect(f)
	}
	for _, kind := range []byte{'N', 'A', 'S', '~', 0x80, 1} {
		f := frameOf(kind, "whatever\x00this is\x00")
		upstream.send(f)
		downstream.expect(f)
		downstream.send(f)
		upstream.expect(f)
	}
	f := walFrame(0x3000000, 300)
	upstream.send(f)
	downstream.expect(f)
}
