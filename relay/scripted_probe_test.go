package relay

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// The first packet in pieces, down to one byte each, behind requests for
// encryption in pieces too.
func TestStartupInPieces(t *testing.T) {
	gss := protocol.AppendStartupRequest(nil, protocol.GSSENCRequestCode)
	ssl := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)
	for _, size := range []int{1, 3, 7} {
		s := newScripted(t, Config{Mode: ModeSplice})
		downstream := s.connect()
		pieces := func(b []byte) {
			for len(b) > 0 {
				n := min(size, len(b))
				downstream.send(b[:n])
				b = b[n:]
			}
		}
		var upstream *peer
		for _, request := range [][]byte{gss, ssl, gss} {
			pieces(request)
			if upstream == nil {
				upstream = s.accept()
			}
			upstream.expect(request)
			upstream.send([]byte{'N'})
			downstream.expect([]byte{'N'})
		}
		pieces(startup(marked...))
		upstream.expect(startup("user", "a", "replication", "true"))
		for _, b := range loginAnswer {
			upstream.send([]byte{b})
		}
		downstream.expect(loginAnswer)
		pieces(query("IDENTIFY_SYSTEM"))
		upstream.expect(query("IDENTIFY_SYSTEM"))
	}
}

// Port scans and health probes: they open and close, say nothing, half a word, or
// something else than PostgreSQL. The upstream hears of none of them, nothing is
// left behind, and the log does not fill.
func TestPortScans(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	downstream, upstream := s.stream(marked...)
	for i := range 300 {
		conn := s.connect().conn.(*net.TCPConn)
		switch i % 6 {
		case 1:
			_ = conn.SetLinger(0) // a reset, as a SYN scan with a full handshake ends
		case 2:
			_, _ = conn.Write([]byte{0})
		case 3:
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		case 4:
			_, _ = conn.Write([]byte("\x00\x00\x00\x54\x00\x03"))
			_ = conn.CloseWrite()
		case 5:
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
		}
		_ = conn.Close()
	}
	eventually(t, "the scans to be over", func() (bool, string) {
		st := s.relay.Status()
		return st.Accepted == 301 && len(st.Sessions) == 1, fmt.Sprintf("%+v", st)
	})
	f := walFrame(0x3000000, 300)
	upstream.send(f)
	downstream.expect(f)
	log := s.log.String()
	if n := strings.Count(log, `"level":"warn"`) + strings.Count(log, `"level":"info"`) - 2; n < 1 || n > strangerLines {
		t.Errorf("%d lines for 300 scans", n) // besides those of the listener and the stream
	}
}

// Lines that were left out are counted in the next one, and each window has a new
// budget.
func TestLineBudget(t *testing.T) {
	var b lineBudget
	now := time.Now()
	for window := range 3 {
		for i := range 25 {
			may, leftOut := b.pass(now)
			want := uint64(0)
			if window > 0 && i == 0 {
				want = 25 - strangerLines
			}
			if may != (i < strangerLines) || leftOut != want {
				t.Errorf("window %d, line %d: %v, %d left out, want %d", window, i, may, leftOut, want)
			}
		}
		now = now.Add(strangerWindow)
	}
}
