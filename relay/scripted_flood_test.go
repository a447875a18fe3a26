package relay

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// inUse is the memory that heap and stacks take, in bytes.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what lies in a sync.Pool survives the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// crowd opens up to n connections, as many as this process may with both ends of
// them in it, and says the same on each.
func (s *scripted) crowd(n int, say func(i int) []byte) (conns []net.Conn) {
	s.t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		s.t.Fatal(err)
	}
	n = min(n, int(min(limit.Cur, 1<<20))/3)
	addr := s.relay.Addrs()[0].String()
	for i := range n {
		conn, err := net.DialTimeout("tcp", addr, scriptTimeout)
		if err != nil {
			s.t.Fatalf("connection %d: %v", i, err)
		}
		s.t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write(say(i)) // the relay may have had enough of it already
		conns = append(conns, conn)
	}
	return conns
}

// Ten thousand connections that begin to say something and never finish: they cost
// a bounded number of descriptors and a bounded amount of memory, a stream that
// there is goes on, a login comes through, and the log does not fill.
func TestTenThousandConnections(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	downstream, upstream := s.stream("user", "a", "replication", "true")
	before := inUse()
	packet := startup(marked...)
	conns := s.crowd(10_000, func(i int) []byte { return packet[:1+i%(len(packet)-1)] })
	n := len(conns)
	t.Logf("%d connections", n)
	eventually(t, "all to be accepted, and most to be gone", func() (bool, string) {
		st := s.relay.Status()
		return st.Accepted == uint64(n+1) && len(st.Sessions) <= maxHandshakes+1, fmt.Sprintf("%d accepted, %d open", st.Accepted, len(st.Sessions))
	})
	if st := s.relay.Status(); len(st.Sessions) != min(n, maxHandshakes)+1 {
		t.Errorf("%d sessions are open", len(st.Sessions))
	}
	// Sockets of the test's own side are in the process, but hardly on its heap.
	if grown := inUse() - before; grown > 48<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	f := walFrame(0x3000000, 3000)
	upstream.send(f)
	downstream.expect(f)
	s.login("user", "b")
	if lines := strings.Count(s.log.String(), `"level":"warn"`); lines != min(strangerLines, max(n-maxHandshakes, 0)) {
		t.Errorf("%d warnings", lines)
	}
	if n > maxHandshakes {
		(&peer{t, conns[0]}).fatal(codeTooManyConnections, "have not logged in yet")
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, "the crowd to be gone", func() (bool, string) {
		st := s.relay.Status()
		return len(st.Sessions) == 2, fmt.Sprint(len(st.Sessions))
	})
}

// Many clients with a whole startup packet each, and an upstream that accepts and
// never answers: the packets are all that is held.
func TestCrowdBeforeASilentUpstream(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, AnswerTimeout: time.Hour})
	before := inUse()
	conns := s.crowd(500, func(int) []byte { return startup("user", strings.Repeat("u", 5000)) })
	eventually(t, "all to wait", func() (bool, string) {
		n := 0
		for _, session := range s.relay.Status().Sessions {
			if session.Upstream != "" {
				n++
			}
		}
		return n == len(conns), fmt.Sprint(n)
	})
	if grown := inUse() - before; grown > 32<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
}

// Each of them is told, and the log once.
func TestSilentUpstreamIsOneLine(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, AnswerTimeout: 50 * time.Millisecond})
	for _, conn := range s.crowd(50, func(int) []byte { return startup("user", "a") }) {
		(&peer{t, conn}).fatal(codeConnectionFailure, "no answer to the startup packet within 50ms")
	}
	log := s.log.String()
	if n := strings.Count(log, "upstream cannot be reached"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// An upstream that accepts and stalls: the client is told within connect_timeout,
// whatever sslmode is, and both connections end.
func TestUpstreamAcceptsAndStalls(t *testing.T) {
	for _, sslmode := range []string{"disable", "prefer", "require"} {
		t.Run(sslmode, func(t *testing.T) {
			t.Parallel()
			stalls(t, sslmode)
		})
	}
}

func stalls(t *testing.T, sslmode string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	conninfo := strings.Replace(upstreamConninfo(lis), "disable", sslmode+" connect_timeout=1", 1)
	s := newScripted(t, Config{Mode: ModeSplice, Upstream: conninfo})
	s.lis = lis
	downstream := s.connect()
	downstream.send(startup("user", "a"))
	upstream := s.accept()
	downstream.fatal(codeConnectionFailure, "could not connect to upstream "+lis.Addr().String())
	if sslmode == "disable" {
		upstream.startup()
	} else {
		upstream.expect(protocol.AppendStartupRequest(nil, protocol.SSLRequestCode))
	}
	upstream.ended()
	if e := s.relay.Status().UpstreamError; e == nil || e.Code != codeConnectionFailure {
		t.Errorf("%s: upstream error %+v", sslmode, e)
	}
}

// Whoever stops in the middle of a frame holds up nobody else, and is not waited
// for once the upstream has had enough.
func TestSlowLorisInsideAFrame(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, DrainTimeout: 100 * time.Millisecond})
	stuck, theirs := s.login("user", "a")
	stuck.send(query("SELECT 1")[:7])
	other, upstream := s.stream("user", "b", "replication", "true")
	for range 100 {
		f := walFrame(0x3000000, 500)
		upstream.send(f)
		other.expect(f)
	}
	_ = theirs.conn.Close()
	stuck.ended()
}
