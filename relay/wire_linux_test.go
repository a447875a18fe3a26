package relay

import (
	"io"
	"net"
	"syscall"
	"testing"
)

// keepalives and tcp_user_timeout of the conninfo hold for both legs: a peer that
// vanishes without a word ends the session on either side.
func TestSocketSettingsOnBothLegs(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	s := newScripted(t, Config{Mode: ModeSplice, Upstream: upstreamConninfo(lis) +
		" keepalives_idle=7 keepalives_interval=3 keepalives_count=2 tcp_user_timeout=4321"})
	s.lis = lis
	s.login("user", "a")
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	for _, session := range s.relay.sessions {
		for name, w := range map[string]*wire{"downstream": session.downstream, "upstream": session.upstream} {
			err := w.raw.Control(func(fd uintptr) {
				for option, want := range map[int]int{
					syscall.TCP_KEEPIDLE: 7, syscall.TCP_KEEPINTVL: 3, syscall.TCP_KEEPCNT: 2,
					tcpUserTimeout: 4321, syscall.TCP_NODELAY: 1,
				} {
					if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option); err != nil || got != want {
						t.Errorf("%s: option %d is %d, %v, want %d", name, option, got, err, want)
					}
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// The steady state allocates nothing: read, scan, forward.
func TestForwardingAllocatesNothing(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
	downstream, upstream := s.stream(marked...)
	frame := walFrame(0x3000000, 2000)
	b := make([]byte, len(frame))
	n := testing.AllocsPerRun(500, func() {
		if _, err := upstream.conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < len(b); {
			m, err := downstream.conn.Read(b[got:])
			if err != nil {
				t.Fatal(err)
			}
			got += m
		}
	})
	if n >= 1 {
		t.Errorf("%v allocations per frame", n)
	}
}

// A write that waits for the next one does so once: whatever comes later leaves at
// once.
func TestGoesOnOnce(t *testing.T) {
	near, far := wires(t)
	near.goesOn(true)
	for _, text := range []string{"this and ", "that"} {
		if err := near.write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if near.writing.more {
			t.Errorf("behind %q the next write would wait", text)
		}
	}
	b := make([]byte, len("this and that"))
	if _, err := io.ReadFull(far, b); err != nil || string(b) != "this and that" {
		t.Errorf("%q, %v", b, err)
	}
}
