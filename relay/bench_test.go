package relay

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// scanned are the Flows that are scanned with, and what a frame may cost, in
// nanoseconds. Logical streams, which are less by far, have no loop of their own as
// WAL has. Without hold-back one costs what it did before there was any.
var scanned = map[string]struct {
	flow   func() *Flow
	budget float64
}{
	"splice":    {func() *Flow { return scannedFlow(streamPhysical, false) }, 10},
	"strip":     {func() *Flow { return scannedFlow(streamPhysical, true) }, 10},
	"logical":   {func() *Flow { return scannedFlow(streamOther, false) }, 40},
	"held_back": {heldBackFlow, 120},
}

func scannedFlow(kind streamKind, strip bool) *Flow {
	c := &Conversation{ready: true, stream: kind}
	c.Marker = kind == streamPhysical
	f := newFlow(Downstream, strip, 0, c)
	f.first = true
	return f
}

// heldBackFlow holds back a stream whose standby has flushed all that comes.
func heldBackFlow() *Flow {
	f := scannedFlow(streamOther, false)
	names, err := ParseStandbyNames("s1")
	if err != nil {
		panic(err) // it is in the code
	}
	s := Standby{ApplicationName: "s1", Flush: 1 << 40, Streaming: true}
	f.gate = &holdGate{stream: holdStream{Walsender: streamPID}}
	f.gate.setView(newHoldView(names, &walsenders{list: []walsender{{pid: streamPID}, {pid: 2, physical: true, Standby: s}}}, nil, false))
	return f
}

// Scanning allocates nothing, whatever the size of frames.
func TestScanAllocatesNothing(t *testing.T) {
	for _, size := range []int{1, 100, 8192, 60000} {
		var b []byte
		for len(b) < 100<<10 {
			b = append(b, walFrame(0x3000000, size)...)
		}
		for name, with := range scanned {
			f := with.flow()
			if v := f.Scan(b); v.Used < len(b) {
				t.Fatalf("%s: %d of %d bytes are forwarded", name, v.Used, len(b))
			}
			if n := testing.AllocsPerRun(100, func() { f.Scan(b) }); n != 0 {
				t.Errorf("frames of %d bytes, %s: %v allocations", size, name, n)
			}
		}
	}
}

// BenchmarkScan fails when a small frame takes longer than it may or allocates: the
// best run counts, for the others tell of the machine.
func BenchmarkScan(b *testing.B) {
	for name, with := range scanned {
		b.Run(name, func(b *testing.B) {
			f := with.flow()
			var buf []byte
			frames := 0
			for len(buf) < 100<<10 {
				buf = append(buf, walFrame(0x3000000, 100)...)
				frames++
			}
			best := time.Hour
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				f.Scan(buf)
				best = min(best, time.Since(began))
			}
			perFrame := float64(best.Nanoseconds()) / float64(frames)
			b.ReportMetric(perFrame, "ns/frame")
			if perFrame > with.budget {
				b.Errorf("a frame takes %.1f ns, want %.0f at most", perFrame, with.budget)
			}
			if n := testing.AllocsPerRun(10, func() { f.Scan(buf) }); n != 0 {
				b.Errorf("%v allocations", n)
			}
		})
	}
}

// BenchmarkBulk moves WAL in full frames through a relay, and without one.
func BenchmarkBulk(b *testing.B) {
	frame := walFrame(0x3000000, 128<<10-25)
	run := func(b *testing.B, downstream, upstream *peer) {
		b.SetBytes(int64(len(frame)))
		done := make(chan error, 1)
		go func() {
			_ = downstream.conn.SetReadDeadline(time.Now().Add(time.Hour))
			_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.LimitReader(downstream.conn,
				int64(b.N)*int64(len(frame)))}, make([]byte, 256<<10))
			done <- err
		}()
		b.ResetTimer()
		for range b.N {
			if _, err := upstream.conn.Write(frame); err != nil {
				b.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.Run("relay", func(b *testing.B) {
		s := newScripted(b, Config{Mode: ModeSplice, Slots: testSource(b)})
		downstream, upstream := s.stream(marked...)
		_ = upstream.conn.SetWriteDeadline(time.Time{})
		run(b, downstream, upstream)
	})
	b.Run("direct", func(b *testing.B) {
		downstream, upstream := direct(b)
		run(b, downstream, upstream)
	})
}

// BenchmarkPing sends one small frame and waits for the answer.
func BenchmarkPing(b *testing.B) {
	k := protocol.AppendCopyData(nil, (&protocol.PrimaryKeepalive{}).Append(nil))
	r := protocol.AppendCopyData(nil, (&protocol.StandbyStatusUpdate{}).Append(nil))
	run := func(b *testing.B, downstream, upstream *peer) {
		for _, p := range []*peer{downstream, upstream} {
			_ = p.conn.SetDeadline(time.Time{})
		}
		go func() {
			buf := make([]byte, len(k))
			for {
				if _, err := io.ReadFull(downstream.conn, buf); err != nil {
					return
				}
				_, _ = downstream.conn.Write(r)
			}
		}()
		buf := make([]byte, len(r))
		b.ResetTimer()
		for range b.N {
			_, _ = upstream.conn.Write(k)
			if _, err := io.ReadFull(upstream.conn, buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("relay", func(b *testing.B) {
		s := newScripted(b, Config{Mode: ModeSplice, Slots: testSource(b)})
		downstream, upstream := s.stream(marked...)
		run(b, downstream, upstream)
	})
	b.Run("direct", func(b *testing.B) {
		downstream, upstream := direct(b)
		run(b, downstream, upstream)
	})
}

// direct returns two ends of one connection.
func direct(b *testing.B) (downstream, upstream *peer) {
	s := newScripted(b, Config{Mode: ModePlain})
	conn := dialTCP(b, s.lis.Addr().String())
	return &peer{b, conn}, s.accept()
}

func dialTCP(b *testing.B, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
