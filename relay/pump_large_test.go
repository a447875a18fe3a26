package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/protocol"
)

// randomWAL returns a physical stream of n frames, small, large, and about as
// large as what goes past the process.
func randomWAL(r *rand.Rand, n int) []byte {
	var b []byte
	at := protocol.LSN(0x3000000)
	for range n {
		size := r.Intn(300)
		switch r.Intn(4) {
		case 0:
			b = protocol.AppendCopyData(b, (&protocol.PrimaryKeepalive{WALEnd: at}).Append(nil))
			continue
		case 1:
			size = unseenFrom - protocol.FrameHeaderLen - protocol.XLogDataHeaderLen - largeHead + r.Intn(2*largeHead)
		case 2:
			size = bufferSize - 100 + r.Intn(200)
		case 3:
			size += r.Intn(4) * (r.Intn(3 * bufferSize))
		}
		data := make([]byte, size)
		_, _ = r.Read(data)
		m := protocol.XLogData{DataStart: at, WALEnd: at, Data: data}
		b = protocol.AppendCopyData(b, m.Append(nil))
		at += protocol.LSN(size)
	}
	return b
}

// sendCut writes b in pieces of random sizes.
func sendCut(r *rand.Rand, conn net.Conn, b []byte) error {
	for len(b) > 0 {
		most := []int{10, 1000, 50_000, 400_000}[r.Intn(4)]
		n := min(len(b), 1+r.Intn(most))
		if _, err := conn.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// stripFor puts a relay of ModeStrip in front of another one's address.
func stripFor(t *testing.T, addr string) *scripted {
	host, port, _ := net.SplitHostPort(addr)
	return newScripted(t, Config{Mode: ModeStrip, Upstream: "host=" + host + " port=" + port + " sslmode=disable"})
}

// pumpOf returns the downstream pump of the only session. What the pump owns may
// be read when the relay has ended.
func (s *scripted) pumpOf() *pump {
	s.t.Helper()
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	for _, session := range s.relay.sessions {
		return &session.down
	}
	s.t.Fatal("no session")
	return nil
}

// Large frames, small ones and slot messages, cut anywhere and between relays by
// a proxy that cuts anew: the walreceiver gets the walsender's bytes (I-13).
func TestLargeFramesAreTransparent(t *testing.T) {
	for seed := range int64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewSource(seed))
			source := testSource(t)
			publishSlots(t, source, 1, 3)
			splicing := newScripted(t, Config{Mode: ModeSplice, Slots: source})
			between, err := faultproxy.New(splicing.relay.Addrs()[0].String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = between.Close() })
			stripping := stripFor(t, between.Addr())
			stripping.lis = splicing.lis // the walsender's end of the chain
			downstream, upstream := stripping.stream("user", "a", "replication", "true")
			pumps := []*pump{splicing.pumpOf(), stripping.pumpOf()}

			sent := randomWAL(r, 60)
			_ = downstream.conn.SetDeadline(time.Now().Add(10 * scriptTimeout))
			_ = upstream.conn.SetDeadline(time.Now().Add(10 * scriptTimeout))
			done, published := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(published)
				for n := uint64(2); ; n++ {
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
						publishSlots(t, source, n, int(n%40))
					}
				}
			}()
			failed := make(chan error, 1)
			go func() { failed <- sendCut(rand.New(rand.NewSource(^seed)), upstream.conn, sent) }()
			got := make([]byte, len(sent))
			_, err = io.ReadFull(downstream.conn, got)
			close(done)
			<-published
			if err := errors.Join(err, <-failed); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, sent) {
				at := 0
				for got[at] == sent[at] {
					at++
				}
				t.Fatalf("byte %d of %d is another one", at, len(sent))
			}
			if st := splicing.relay.Status().Sessions[0]; st.Spliced < 2 {
				t.Errorf("%d slot messages spliced", st.Spliced)
			}
			_, _ = downstream.conn.Close(), upstream.conn.Close()
			stripping.stop()
			splicing.stop()
			for i, p := range pumps {
				if p.pipe.r == 0 && !p.pipe.refused {
					t.Errorf("relay %d: nothing went past the process", i)
				}
			}
		})
	}
}

// A shutdown within a large frame waits for its end, wherever in it, and needs
// nothing more to come.
func TestShutdownWithinLargeFrame(t *testing.T) {
	for _, cut := range []int{largeHead, 1000, 150_000, 290_000} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, Config{Mode: ModeSplice})
			downstream, upstream := s.stream("user", "a", "replication", "true")
			f := walFrame(0x3000000, cut+bufferSize/2) // the rest is one fill of the pipe
			upstream.send(f[:cut])
			downstream.expect(f[:cut])
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				s.stop()
			}()
			eventually(t, "a reason to end", func() (bool, string) {
				s.relay.mu.Lock()
				defer s.relay.mu.Unlock()
				for _, session := range s.relay.sessions {
					return session.reason.Load() != nil, "no reason"
				}
				return false, "no session"
			})
			upstream.send(f[cut:])
			downstream.expect(f[cut:])
			downstream.fatal("57P01", "slotferry is shutting down")
			_ = downstream.conn.Close()
			<-stopped
		})
	}
}

// What the upstream said last behind a large frame reaches the downstream, and so
// does the part of one that it could not finish. What has come before is received
// first: of what a server has not sent yet, its own reset makes an end.
func TestLastWordsBehindLargeFrames(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	frame := walFrame(0x3000000, 200_000)
	cut := len(frame) - unseenFrom - 5000
	e := (&protocol.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "terminating walsender"}).Append(nil)
	for i := range 10 {
		last := append(frame[cut:len(frame):len(frame)], e...)
		if i%2 == 1 {
			last = last[:3000] // it dies within the frame
		}
		downstream, upstream := s.stream("user", "a", "replication", "true")
		upstream.send(frame[:cut])
		downstream.expect(frame[:cut])
		downstream.send(protocol.AppendCopyData(nil, (&protocol.StandbyStatusUpdate{}).Append(nil)))
		upstream.send(last)
		_ = upstream.conn.Close() // with unread bytes: the relay gets a reset
		downstream.expect(last)
		downstream.ended()
	}
}

// A slot message that comes while a large frame is on its way goes behind it, and
// at once.
func TestSlotMessageBehindLargeFrame(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	s := newScripted(t, Config{Mode: ModeSplice, Slots: source})
	downstream, upstream := s.stream(marked...)
	downstream.slotMessage()
	f := walFrame(0x3000000, 400_000)
	upstream.send(f[:200_000])
	downstream.expect(f[:200_000])
	publishSlots(t, source, 2, 1)
	upstream.send(f[200_000:])
	downstream.expect(f[200_000:])
	if m, end := downstream.slotMessage(); m.Sequence != 2 || end != 0x3000000+400_000 {
		t.Errorf("message %d, WALEnd %s", m.Sequence, end)
	}
}

// A downstream that has stopped reading within a large frame stops its walsender,
// and its end ends the session.
func TestDownstreamGoneWithinLargeFrame(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	downstream, upstream := s.stream(marked...)
	wrote := make(chan error, 1)
	_ = upstream.conn.SetWriteDeadline(time.Now().Add(10 * scriptTimeout))
	go func() {
		frame := walFrame(0x3000000, bufferSize)
		for {
			if _, err := upstream.conn.Write(frame); err != nil {
				wrote <- err
				return
			}
		}
	}()
	downstream.read(10 * bufferSize)
	_ = downstream.conn.Close()
	if err := <-wrote; isTimeout(err) {
		t.Error(err)
	}
	eventually(t, "no session", func() (bool, string) {
		n := len(s.relay.Status().Sessions)
		return n == 0, fmt.Sprint(n, " sessions")
	})
}

// A large frame that is taken out is read at full width: in pieces that are meant
// for frames which pass the process, one of a gigabyte cost a minute of CPU time.
func TestTakenFramesAreReadAtFullWidth(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeStrip})
	downstream, upstream := s.stream("user", "a", "replication", "true")
	const large = 1 << 20
	for taken, want := range map[bool]int{true: bufferSize, false: large + largeHead} {
		p := &pump{dir: Downstream, from: newWire(upstream.conn), to: newWire(downstream.conn),
			flow: &Flow{frame: large, rest: large, taking: taken}}
		if got := p.readSize(); got != want {
			t.Errorf("taken %v: %d bytes at once, want %d", taken, got, want)
		}
	}
}
