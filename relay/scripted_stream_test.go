package relay

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

var marked = []string{"user", "a", "replication", "true", protocol.OptInParameter, protocol.OptInValue}

// A slot message goes out at once after CopyBothResponse, at once when the
// stream rests, and its WALEnd is what was forwarded before it.
func TestSplice(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.stream(marked...)
	if m, end := downstream.slotMessage(); m.Sequence != 1 || end != 0x3000000 {
		t.Errorf("message %d, WALEnd %s, want 1 and START_REPLICATION's position", m.Sequence, end)
	}
	wal := walFrame(0x3000000, 1000)
	upstream.send(wal)
	downstream.expect(wal)
	publishSlots(t, source, 2, 1)
	if m, end := downstream.slotMessage(); m.Sequence != 2 || end != 0x3000000+1000 {
		t.Errorf("message %d, WALEnd %s", m.Sequence, end)
	}
	// Behind the upstream's CopyDone nothing may follow.
	upstream.send(protocol.AppendCopyDone(nil))
	downstream.expect(protocol.AppendCopyDone(nil))
	publishSlots(t, source, 3, 1)
	downstream.send(protocol.AppendCopyDone(nil))
	upstream.expect(protocol.AppendCopyDone(nil))
	end := protocol.AppendReadyForQuery(protocol.AppendCommandComplete(nil, "START_STREAMING"))
	upstream.send(end)
	downstream.expect(end)
	publishSlots(t, source, 4, 1)

	// The next timeline on the same connection.
	start := query("START_REPLICATION SLOT \"s\" 0/4000000 TIMELINE 2")
	downstream.send(start)
	upstream.expect(start)
	upstream.send(protocol.AppendCopyBothResponse(nil))
	downstream.expect(protocol.AppendCopyBothResponse(nil))
	if m, end := downstream.slotMessage(); m.Sequence != 4 || end != 0x4000000 {
		t.Errorf("message %d, WALEnd %s", m.Sequence, end)
	}
	st := s.relay.Status().Sessions[0]
	if st.Spliced != 3 || st.TimelineID != 2 || st.StartLSN != 0x4000000 || st.State != "streaming" {
		t.Errorf("status %+v", st)
	}
}

// Not asked for, not certain, logical, or over: no slot message. What is sent
// then must be all that arrives.
func TestNoSplice(t *testing.T) {
	w := protocol.AppendCopyBothResponse(nil)
	physical := "START_REPLICATION 0/3000000 TIMELINE 1"
	for name, tt := range map[string]struct {
		pairs []string
		say   []string // queries
		then  []byte   // from upstream, after the answer to the queries
	}{
		"no opt-in":      {[]string{"user", "a", "replication", "true"}, []string{physical}, w},
		"logical":        {marked, []string{"START_REPLICATION SLOT s LOGICAL 0/3000000"}, w},
		"two commands":   {marked, []string{physical, "IDENTIFY_SYSTEM"}, w},
		"not read":       {marked, []string{"START_REPLICATION 0/3000000 WHATEVER"}, w},
		"huge query":     {marked, []string{physical + strings.Repeat(" ", maxHeldQuery)}, w},
		"CopyDone":       {marked, []string{physical}, append(w[:8:8], protocol.AppendCopyDone(nil)...)},
		"base backup":    {marked, []string{"BASE_BACKUP"}, []byte{'H', 0, 0, 0, 7, 0, 0, 0}},
		"idle":           {marked, nil, nil},
		"in the startup": {marked, nil, w},
	} {
		t.Run(name, func(t *testing.T) {
			source := testSource(t)
			s := newScripted(t, Config{Mode: ModeSplice, Slots: source, DrainTimeout: 100 * time.Millisecond})
			downstream, upstream := s.login(tt.pairs...)
			for _, q := range tt.say {
				downstream.send(query(q))
				upstream.expect(query(q))
			}
			upstream.send(tt.then)
			downstream.expect(tt.then)
			for i := range 3 {
				publishSlots(t, source, uint64(i+1), 1)
				f := walFrame(protocol.LSN(0x3000000+100*i), 100)
				upstream.send(f)
				downstream.expect(f)
			}
			s.stop()
			downstream.fatal("57P01", "slotferry is shutting down")
		})
	}
}

// After an error of the upstream and after the downstream's CopyDone the
// stream is not spliced into.
func TestNoSpliceAfterEnd(t *testing.T) {
	e := protocol.ErrorResponse{Severity: "ERROR", Code: "58P01", Message: "requested WAL segment has already been removed"}
	for name, end := range map[string]func(downstream, upstream *peer){
		"error": func(downstream, upstream *peer) {
			upstream.send(e.Append(nil))
			downstream.expect(e.Append(nil))
		},
		"CopyDone": func(downstream, upstream *peer) {
			downstream.send(protocol.AppendCopyDone(nil))
			upstream.expect(protocol.AppendCopyDone(nil))
		},
		"CopyFail": func(downstream, upstream *peer) {
			downstream.send([]byte("f\x00\x00\x00\x05\x00"))
			upstream.expect([]byte("f\x00\x00\x00\x05\x00"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := testSource(t)
			s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
			downstream, upstream := s.stream(marked...)
			publishSlots(t, source, 1, 1)
			downstream.slotMessage()
			end(downstream, upstream)
			publishSlots(t, source, 2, 1)
			f := walFrame(0x3000000, 100)
			upstream.send(f)
			downstream.expect(f)
		})
	}
}

// Frames that come byte by byte, cut in their headers, with slot messages all
// the time: all arrive, none in the middle of another.
func TestDribbledFrames(t *testing.T) {
	source := testSource(t)
	sink := &countingSink{}
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	strip := newScripted(t, Config{Mode: ModeStrip, Sink: sink, Upstream: conninfoOf(s.relay)})
	strip.lis = s.lis
	downstream, upstream := strip.stream("user", "a", "replication", "true")
	stop := make(chan struct{})
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
				publishSlots(t, source, i, 1+int(i)%3)
				runtime.Gosched()
			}
		}
	}()
	defer func() {
		close(stop)
		<-published
	}()
	lsn := protocol.LSN(0x3000000)
	for i := range 150 {
		f := walFrame(lsn, 1+i%40)
		lsn += protocol.LSN(1 + i%40)
		if i%5 == 0 {
			f = protocol.AppendCopyData(nil, (&protocol.PrimaryKeepalive{WALEnd: lsn}).Append(nil))
		}
		switch i % 3 {
		case 0:
			for j := range f {
				upstream.send(f[j : j+1])
			}
		case 1:
			upstream.send(f[:1])
			upstream.send(f[1:5])
			upstream.send(f[5:])
		default:
			upstream.send(f)
		}
		downstream.expect(f)
	}
	eventually(t, "messages at the sink", func() (bool, string) { return sink.n() > 20, fmt.Sprint(sink.n()) })
}

// A frame of any size passes without being held in memory.
func TestHugeFrame(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.stream(marked...)
	downstream.slotMessage()
	const size = 512 << 20
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	head := walFrame(0x3000000, 0)
	head[1], head[2], head[3], head[4] = byte((size+29)>>24), byte((size+29)>>16&0xff), byte((size+29)>>8&0xff), byte((size+29)&0xff)
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	sent := make(chan error, 1)
	go func() {
		_, err := upstream.conn.Write(head)
		for i := 0; err == nil && i < size/len(chunk); i++ {
			_, err = upstream.conn.Write(chunk)
		}
		sent <- err
	}()
	downstream.expect(head)
	_ = downstream.conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	buf := make([]byte, len(chunk))
	for i := range size / len(chunk) {
		if _, err := io.ReadFull(downstream.conn, buf); err != nil {
			t.Fatal(err)
		}
		if i%64 == 0 && !bytes.Equal(buf, chunk) {
			t.Fatal("bytes changed")
		}
		if i == 10 {
			publishSlots(t, source, 2, 1)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if m, end := downstream.slotMessage(); m.Sequence != 2 || end != 0x3000000+size {
		t.Errorf("message %d at %s", m.Sequence, end)
	}
	runtime.ReadMemStats(&during)
	if grown := int64(during.HeapSys) - int64(before.HeapSys); grown > 48<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
}

// 1,000 slots take several parts; WAL goes between them.
func TestManySlots(t *testing.T) {
	source := testSource(t)
	p := publishSlots(t, source, 1, 1000)
	if len(p.parts) < 2 {
		t.Fatalf("%d parts", len(p.parts))
	}
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.stream(marked...)
	m, _ := downstream.slotMessage()
	if len(m.Slots) != 1000 {
		t.Errorf("%d slots", len(m.Slots))
	}
	f := walFrame(0x3000000, 10)
	upstream.send(f)
	downstream.expect(f)
}

// What stands at 0/0 and is not ours would damage pg_wal: both sides are
// closed. Empty ones pass, damaged ones of ours do not (I-13).
func TestStripRefusesForeignZero(t *testing.T) {
	zero := func(data []byte) []byte {
		m := protocol.XLogData{WALEnd: 0x3000000, Data: data}
		return protocol.AppendCopyData(nil, m.Append(nil))
	}
	sink := &countingSink{}
	s := newScripted(t, Config{Mode: ModeStrip, Sink: sink})
	downstream, upstream := s.stream("user", "a", "replication", "true")
	wal := walFrame(0x3000000, 10)
	damaged := zero([]byte("SLTFERRY damaged"))
	future := zero(append([]byte("SLTFERRY\x00\x63"), make([]byte, 100)...))
	upstream.send(zero(nil))
	upstream.send(damaged)
	upstream.send(wal)
	upstream.send(damaged)
	upstream.send(future)
	upstream.send(zero(append([]byte("SLTFERRY"), make([]byte, 1<<20)...))) // larger than any
	upstream.send(wal)
	downstream.expect(zero(nil))
	downstream.expect(wal)
	downstream.expect(wal)
	st := s.relay.Status().Sessions[0]
	if st.Stripped != 4 || st.Damaged != 4 {
		t.Errorf("stripped %d, damaged %d", st.Stripped, st.Damaged)
	}
	if n := strings.Count(s.log.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	upstream.send(wal)
	upstream.send(zero([]byte("SLTFERR")))
	downstream.expect(wal)
	downstream.fatal("XX001", "XLogData at 0/0 that is not a slot message")
	upstream.ended()
}

// Reports go up between whole frames, and only once a slot message has shown
// that a relay is there. Feedback is not touched (I-12).
func TestReports(t *testing.T) {
	source := testSource(t)
	reports := &fixedReport{p: &protocol.HelperReport{Standby: "ph1", SnapshotRequest: 3}}
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	strip := newScripted(t, Config{
		Mode: ModeStrip, Reports: reports, Upstream: conninfoOf(s.relay), ReportInterval: time.Millisecond,
	})
	strip.lis = s.lis
	downstream, upstream := strip.stream("user", "a", "replication", "true")
	reply := func(i int) []byte {
		m := protocol.StandbyStatusUpdate{Write: protocol.LSN(i), ReplyRequested: i%2 == 0}
		return protocol.AppendCopyData(nil, m.Append(nil))
	}
	for i := range 200 {
		if i == 50 {
			if st := s.relay.Status().Sessions[0]; st.Stripped != 0 {
				t.Errorf("a report before a slot message: %+v", st)
			}
			publishSlots(t, source, 1, 1)
		}
		f := reply(i)
		downstream.send(f[:i%len(f)])
		downstream.send(f[i%len(f):])
		upstream.expect(f)
	}
	eventually(t, "a report at the relay", func() (bool, string) {
		st := s.relay.Status().Sessions[0]
		return st.HelperReport != nil && st.HelperReport.Standby == "ph1" && len(source.snapshot) == 1, fmt.Sprintf("%+v", st)
	})
	downstream.send(reply(1))
	upstream.expect(reply(1))
}

// On a session that did not ask, what looks like a report is the upstream's to
// judge.
func TestReportWithoutOptIn(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.stream("user", "a", "replication", "true")
	body, err := new(protocol.HelperReport).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := protocol.AppendCopyData(nil, body)
	downstream.send(f)
	upstream.expect(f)
}

// A report that is damaged or too large is taken out and counted; the stream
// goes on.
func TestDamagedReport(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.stream(marked...)
	downstream.send(protocol.AppendCopyData(nil, []byte("fSLTFERRY")))
	downstream.send(protocol.AppendCopyData(nil, append([]byte("fSLTFERRY"), make([]byte, 2<<20)...)))
	f := protocol.AppendCopyData(nil, []byte("rest"))
	downstream.send(f)
	upstream.expect(f)
	if st := s.relay.Status().Sessions[0]; st.Damaged != 2 || st.HelperReport != nil {
		t.Errorf("%+v", st)
	}
}

type fixedReport struct{ p *protocol.HelperReport }

func (r *fixedReport) Report() (*protocol.HelperReport, <-chan struct{}) { return r.p, nil }
