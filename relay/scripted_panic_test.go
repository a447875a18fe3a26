package relay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// brokenHelper panics at every message, and at the first reports it is asked for.
type brokenHelper struct{ asked int }

func (*brokenHelper) Deliver(*protocol.SlotMessage) { panic("Deliver") }

func (b *brokenHelper) Report() (*protocol.HelperReport, <-chan struct{}) {
	if b.asked++; b.asked <= 3 {
		panic("Report")
	}
	return &protocol.HelperReport{SystemIdentifier: 7}, nil
}

// The helper's side of a relay in one process with it panics, and the stream goes on
// byte for byte, in both directions. It was the end of the process.
func TestPanicOfTheHelperLeavesTheStream(t *testing.T) {
	helper := new(brokenHelper)
	s := newScripted(t, Config{Mode: ModeStrip, Sink: helper, Reports: helper, ReportInterval: time.Millisecond})
	downstream, upstream := s.stream("user", "a", "replication", "true")
	parts, err := (&protocol.SlotMessage{Epoch: 9, Sequence: 1, SystemIdentifier: 7}).Parts(0)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 5
	for i := range messages {
		wal := walFrame(protocol.LSN(0x3000000+1000*i), 1000)
		upstream.send(append(protocol.AppendSlotFrame(nil, 0x3000000, 5, parts[0]), wal...))
		downstream.expect(wal)
	}
	feedback := protocol.AppendCopyData(nil, []byte("r23456789012345678901234567890123"))
	body, err := (&protocol.HelperReport{SystemIdentifier: 7}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	report := protocol.AppendCopyData(nil, body)
	upstream.expect(report) // the source has come round, and is asked as before
	downstream.send(feedback)
	for seen := false; !seen; {
		kind, body := upstream.frame()
		if seen = body[0] == 'r'; !seen && (kind != 'd' || string(body) != string(report[5:])) {
			t.Fatalf("got frame %c %q", kind, body)
		}
	}
	if n := s.relay.panics.Count(); n != messages+3 {
		t.Errorf("counted %d panics, want %d", n, messages+3)
	}
	if st := s.relay.Status(); st.Sessions[0].Damaged != 0 || st.Sessions[0].Stripped != messages {
		t.Errorf("%+v", st.Sessions[0])
	}
	for _, where := range []string{"sink of slot messages", "source of reports"} {
		if n := strings.Count(s.log.String(), `"where":"`+where+`"`); n != 1 {
			t.Errorf("%s is in the log %d times, want once", where, n)
		}
	}
}

// A subscriber of the slot source that panics, in solo the helper, keeps no session
// from its slot messages, and no session from being begun.
func TestPanicOfASubscriberIsItsOwn(t *testing.T) {
	source := testSource(t)
	defer source.Subscribe(func(*protocol.SlotMessage) { panic("subscriber") })()
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.stream(marked...)
	for sequence := uint64(1); sequence <= 3; sequence++ {
		if m, _ := downstream.slotMessage(); m.Sequence != sequence {
			t.Errorf("message %d, want %d", m.Sequence, sequence)
		}
		wal := walFrame(protocol.LSN(0x3000000+1000*sequence), 1000)
		upstream.send(wal)
		downstream.expect(wal)
		if sequence < 3 {
			publishSlots(t, source, sequence+1, 1)
		}
	}
	defer source.Subscribe(func(*protocol.SlotMessage) { panic("subscriber") })() // it is told of the newest at once
	if n := source.Status().Panics; n != 4 {
		t.Errorf("counted %d panics, want 4", n)
	}
	source.watchWalsenders(brokenWatcher{})
	source.tellWatchers(walsenderWatcher.upstreamEnding)
	if n := source.Status().Panics; n != 5 {
		t.Errorf("counted %d panics, want 5", n)
	}
}

type brokenWatcher struct{}

func (brokenWatcher) walsendersRead(*walsenders) { panic("watcher") }
func (brokenWatcher) upstreamEnding()            { panic("watcher") }

// What asks the upstream's helper panics: readiness is unknown, and asked for again.
func TestPanicOfReadinessIsAnAnswerThatIsMissing(t *testing.T) {
	var log lockedLog
	asked := make(chan struct{})
	source, err := NewSlotSource(SlotSourceConfig{
		Conninfo: "host=127.0.0.1 user=x dbname=x", Heartbeat: time.Millisecond, Logger: zerolog.New(&log),
		Readiness: func(context.Context) (map[string]protocol.Readiness, error) {
			asked <- struct{}{}
			panic("readiness")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newReadinessReader(source)
	r.wanted.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx)
	}()
	for range 3 {
		<-asked
	}
	m := &protocol.SlotMessage{InRecovery: true, Slots: []protocol.SlotState{{Name: "s"}}}
	r.apply(m)
	if m.Slots[0].Readiness != protocol.ReadinessUnknown {
		t.Errorf("readiness is %v", m.Slots[0].Readiness)
	}
	cancel()
	for waiting := true; waiting; {
		select {
		case <-asked:
		case <-done:
			waiting = false
		}
	}
	if n := source.Status().Panics; n < 3 {
		t.Errorf("counted %d panics", n)
	}
	if n := strings.Count(log.String(), "panic contained"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log.String())
	}
}
