package relay

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// What goes upstream is the downstream's packet but for the marker.
func TestStartupForwarded(t *testing.T) {
	plain := []string{"user", "j\xf6rg", "replication", "true", "options", "-c wal_sender_timeout=5s", "a.b", "", "user", "x"}
	marked := append([]string{"user", "a", protocol.OptInParameter, "1"}, plain...)
	unmarked := append([]string{"user", "a"}, plain...)
	atEnd := func(p []string) []string { return append(append([]string{}, p...), protocol.OptInParameter, "1") }
	for name, tt := range map[string]struct {
		mode     Mode
		in, want []string
		optedIn  bool
	}{
		"splice":               {ModeSplice, plain, plain, false},
		"splice, marked":       {ModeSplice, marked, unmarked, true},
		"splice, other value":  {ModeSplice, append(plain, protocol.OptInParameter, "0"), plain, false},
		"strip":                {ModeStrip, plain, atEnd(plain), true},
		"strip, marked":        {ModeStrip, marked, atEnd(unmarked), true},
		"strip, database":      {ModeStrip, []string{"replication", "database"}, []string{"replication", "database"}, false},
		"strip, query":         {ModeStrip, []string{"user", "a"}, []string{"user", "a"}, false},
		"strip, query, marked": {ModeStrip, atEnd([]string{"user", "a"}), []string{"user", "a"}, false},
		"plain":                {ModePlain, plain, plain, false},
		"plain, marked":        {ModePlain, marked, marked, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, Config{Mode: tt.mode})
			downstream := s.connect()
			downstream.send(startup(tt.in...))
			upstream := s.accept()
			upstream.expect(startup(tt.want...))
			upstream.send(loginAnswer)
			downstream.expect(loginAnswer)
			if got := s.relay.Status().Sessions[0].OptedIn; got != tt.optedIn {
				t.Errorf("opted in: %v, want %v", got, tt.optedIn)
			}
		})
	}
}

// The largest packet a server takes passes, one byte more does not.
func TestStartupSizeCap(t *testing.T) {
	packet := func(size int) []byte {
		empty := startup("user", "")
		return startup("user", strings.Repeat("u", size-len(empty)))
	}
	for _, mode := range []Mode{ModePlain, ModeSplice} {
		s := newScripted(t, Config{Mode: mode})
		downstream := s.connect()
		largest := packet(protocol.MaxStartupPacket)
		downstream.send(largest)
		s.accept().expect(largest)

		downstream = s.connect()
		downstream.send(packet(protocol.MaxStartupPacket + 1))
		downstream.ended()
		eventually(t, "a line in the log", func() (bool, string) {
			return strings.Contains(s.log.String(), "invalid length of startup packet"), s.log.String()
		})
	}
}

// Lengths that are none end the connection and cost no memory.
func TestInsaneStartupLength(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	for _, head := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x03", "\x00\x00\x00\x07", "\x7f\xff\xff\xff", "\xff\xff\xff\xff", "GET "} {
		downstream := s.connect()
		downstream.send([]byte(head + "\x00\x03\x00\x00"))
		downstream.ended()
	}
}

// GSSENCRequest, SSLRequest and StartupMessage on one connection, in any order:
// each request gets one byte.
func TestEncryptionRequests(t *testing.T) {
	gss := protocol.AppendStartupRequest(nil, protocol.GSSENCRequestCode)
	ssl := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)
	for _, order := range [][][]byte{{gss, ssl}, {ssl, gss}, {ssl}, {gss}} {
		for _, refuse := range []bool{false, true} {
			s := newScripted(t, Config{Mode: ModeSplice, RefuseTLS: refuse})
			downstream := s.connect()
			var upstream *peer
			for _, request := range order {
				downstream.send(request)
				if !refuse {
					if upstream == nil {
						upstream = s.accept()
					}
					upstream.expect(request)
					upstream.send([]byte{'N'})
				}
				downstream.expect([]byte{'N'})
			}
			packet := startup("user", "a")
			downstream.send(packet)
			if upstream == nil {
				upstream = s.accept()
			}
			upstream.expect(packet)
			upstream.send(loginAnswer)
			downstream.expect(loginAnswer)
		}
	}
}

// After the upstream's 'S' or 'G' nothing is read, whatever it looks like. The
// same for TLS from the first byte.
func TestEncryptedSessionIsOpaque(t *testing.T) {
	for _, answer := range "SG" {
		s := newScripted(t, Config{Mode: ModeSplice, Slots: testSource(t)})
		downstream := s.connect()
		request := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)
		downstream.send(request)
		upstream := s.accept()
		upstream.expect(request)
		upstream.send([]byte{byte(answer)})
		downstream.expect([]byte{byte(answer)})
		passesAnything(t, s, downstream, upstream)
	}
	s := newScripted(t, Config{Mode: ModeStrip})
	downstream := s.connect()
	downstream.send([]byte("\x16\x03\x01\x02\x00hello"))
	upstream := s.accept()
	upstream.expect([]byte("\x16\x03\x01\x02\x00hello"))
	passesAnything(t, s, downstream, upstream)
}

func passesAnything(t *testing.T, s *scripted, downstream, upstream *peer) {
	t.Helper()
	for _, b := range []string{"d\xff\xff\xff\xff", "\x00\x00\x00\x00", startupLookalike} {
		downstream.send([]byte(b))
		upstream.expect([]byte(b))
		upstream.send([]byte(b))
		downstream.expect([]byte(b))
	}
	if st := s.relay.Status().Sessions; len(st) != 1 || st[0].Kind != KindOpaque {
		t.Errorf("sessions %+v", st)
	}
	if n := strings.Count(s.log.String(), "encrypted end to end"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

var startupLookalike = string(startup("user", "a", protocol.OptInParameter, "1"))

// Bytes that someone put behind the request for encryption are not taken for
// part of the encrypted session.
func TestStuffedBytesRefused(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	request := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)

	downstream := s.connect()
	downstream.send(append(request, startup("user", "a")...))
	downstream.fatal("08P01", "unencrypted data after SSL request")

	downstream = s.connect()
	downstream.send(request)
	upstream := s.accept()
	upstream.expect(request)
	downstream.send([]byte("too early"))
	upstream.send([]byte{'S'})
	// Either the bytes were there already, or they are the encrypted session's
	// and the upstream's TLS refuses them. Plain text they never are.
	kind := downstream.read(1)[0]
	if kind != 'S' && kind != 'E' {
		t.Errorf("got %c", kind)
	}
}

// An upstream that cannot be reached is named, with cause and hint.
func TestUnreachableUpstream(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	conninfo := upstreamConninfo(closed)
	_ = closed.Close()
	s := newScripted(t, Config{Mode: ModeSplice, Upstream: conninfo + " password=geheim"})
	for range 3 {
		downstream := s.connect()
		downstream.send(protocol.AppendStartupRequest(nil, protocol.SSLRequestCode))
		downstream.expect([]byte{'N'})
		downstream.send(startup("user", "a"))
		downstream.fatal("08006", addr+": connect: connection refused")
	}
	log := s.log.String()
	if strings.Count(log, "upstream cannot be reached") != 1 || strings.Contains(log, "geheim") {
		t.Errorf("log:\n%s", log)
	}
}

// The next host is tried when one does not answer.
func TestDeadUpstreamHostIsPassedOver(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, deadPort, _ := net.SplitHostPort(closed.Addr().String())
	_ = closed.Close()
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	_, port, _ := net.SplitHostPort(open.Addr().String())
	s := newScripted(t, Config{Mode: ModeSplice, Upstream: "host=127.0.0.1,127.0.0.1 port=" + deadPort + "," + port + " sslmode=disable"})
	s.lis = open
	s.login("user", "a")
}

// Whoever does not finish the startup packet is not waited for.
func TestSlowLoris(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice, HandshakeTimeout: 50 * time.Millisecond})
	for _, b := range []string{"", "\x00", "\x00\x00\x00\x20\x00\x03\x00\x00us"} {
		downstream := s.connect()
		downstream.send([]byte(b))
		downstream.ended()
	}
	downstream, upstream := s.login("user", "a") // the deadline is over once it is whole
	eventually(t, "more than the handshake timeout", func() (bool, string) {
		return time.Since(s.relay.Status().Sessions[0].Started) > 100*time.Millisecond, ""
	})
	downstream.send(query("SELECT 1"))
	upstream.expect(query("SELECT 1"))
}

// Something else than PostgreSQL listens on the upstream's port.
func TestUpstreamIsNotPostgres(t *testing.T) {
	for _, greeting := range []string{"@RSYNCD: 31.0\n", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 400 Bad Request\r\n", "R\x7f\xff\xff\xff", "R\x00\x00\x00\x02"} {
		s := newScripted(t, Config{Mode: ModeSplice})
		downstream := s.connect()
		downstream.send(startup("user", "a"))
		upstream := s.accept()
		upstream.startup()
		upstream.send([]byte(greeting))
		downstream.fatal("08P01", "slotferry ends the session")
	}
}

// A postmaster that cannot fork sends an error without a length.
func TestErrorWithoutLength(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	downstream := s.connect()
	downstream.send(startup("user", "a"))
	upstream := s.accept()
	upstream.startup()
	const sorry = "Ecould not fork new process for connection: Cannot allocate memory\n\x00"
	upstream.send([]byte(sorry))
	_ = upstream.conn.Close()
	downstream.expect([]byte(sorry))
	downstream.ended()
}

// A server that does not know the marker says so; the walreceiver never asked
// and gets what it would have got without.
func TestNoRelayUpstream(t *testing.T) {
	answer := func(version uint32, names ...string) []byte {
		m := protocol.NegotiateProtocolVersion{Version: version, Parameters: names}
		return m.Append(nil)
	}
	for name, tt := range map[string]struct{ sent, want []byte }{
		"marker alone": {answer(0x30000, protocol.OptInParameter), nil},
		"others too":   {answer(0x30000, "_pq_.x", protocol.OptInParameter), answer(0x30000, "_pq_.x")},
		"version too":  {answer(0x30002, protocol.OptInParameter), answer(0x30002)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, Config{Mode: ModeStrip})
			downstream := s.connect()
			downstream.send(startup("user", "a", "replication", "true"))
			upstream := s.accept()
			upstream.startup()
			upstream.send(append(tt.sent, loginAnswer...))
			downstream.expect(append(tt.want, loginAnswer...))
			if st := s.relay.Status(); !st.NoRelay || !st.Sessions[0].NoRelay {
				t.Errorf("status %+v", st)
			}
		})
	}
}
