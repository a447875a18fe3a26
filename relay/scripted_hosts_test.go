package relay

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// twoHosts is a relay before two upstream hosts. Upstream is what its conninfo says
// besides.
func twoHosts(t *testing.T, cfg Config) (s *scripted, a, b net.Listener) {
	t.Helper()
	listen := func() (net.Listener, string) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lis.Close() })
		_, port, _ := net.SplitHostPort(lis.Addr().String())
		return lis, port
	}
	a, portA := listen()
	b, portB := listen()
	cfg.Upstream = "host=127.0.0.1,127.0.0.1 port=" + portA + "," + portB + " sslmode=disable " + cfg.Upstream
	return newScripted(t, cfg), a, b
}

// A CancelRequest goes to the host that issued its key, and to no other, also when
// SSLRequest has led to another one already. Nobody's key goes to the first.
func TestCancelGoesToTheIssuer(t *testing.T) {
	source := testSource(t)
	s, a, b := twoHosts(t, Config{Mode: ModeSplice, Slots: source})
	source.connected(b.Addr().String())
	s.lis = b
	s.login("user", "a") // loginAnswer has the key
	source.connected(a.Addr().String())
	request := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)
	for _, tt := range []struct {
		name string
		asks bool
		key  []byte
		to   net.Listener
	}{
		{"issued", false, []byte{1, 2, 3, 4}, b},
		{"issued, behind SSLRequest", true, []byte{1, 2, 3, 4}, b},
		{"unknown", false, []byte{9, 9, 9, 9}, a},
		{"unknown, behind SSLRequest", true, bytes.Repeat([]byte{5}, 256), a},
	} {
		t.Run(tt.name, func(t *testing.T) {
			downstream := s.connect()
			var asked *peer
			if tt.asks {
				downstream.send(request)
				s.lis = a
				asked = s.accept()
				asked.expect(request)
				asked.send([]byte{'N'})
				downstream.expect([]byte{'N'})
			}
			m := protocol.CancelRequest{PID: 42, Key: tt.key}
			downstream.send(m.Append(nil))
			upstream := asked
			if asked == nil || tt.to != a {
				s.lis = tt.to
				upstream = s.accept()
			}
			upstream.expect(m.Append(nil))
			_ = upstream.conn.Close()
			downstream.ended()
			if asked != nil && upstream != asked {
				asked.ended()
			}
		})
	}
}

// New sessions go where the slots are read from first, in every mode: the WAL was one
// server's and the slot messages another's, in solo.
func TestNearestHostFirst(t *testing.T) {
	for _, mode := range []Mode{ModePlain, ModeSplice, ModeStrip} {
		source := testSource(t)
		s, a, b := twoHosts(t, Config{Mode: mode, Near: source})
		for _, lis := range []net.Listener{b, a, b} {
			source.connected(lis.Addr().String())
			s.lis = lis
			s.login("user", "a")
		}
	}
	names, err := ParseStandbyNames("s1")
	if err != nil {
		t.Fatal(err)
	}
	source, err := NewSlotSource(SlotSourceConfig{Conninfo: "host=127.0.0.1 user=x dbname=x", Walsenders: true})
	if err != nil {
		t.Fatal(err)
	}
	s, _, b := twoHosts(t, Config{Mode: ModePlain, RefuseTLS: true, HoldBack: &HoldBack{Standbys: names, Source: source}})
	source.connected(b.Addr().String())
	s.lis = b
	s.login("user", "a")
}

// What servers say to the relay's own login is for the log. Those who are told that no
// host will do have not logged in anywhere.
func TestStrangersLearnNothingOfTheRelaysLogin(t *testing.T) {
	s, a, b := twoHosts(t, Config{Mode: ModeSplice, Upstream: "user=ferryman dbname=cargo target_session_attrs=read-write connect_timeout=5"})
	_ = b.Close()
	s.lis = a
	downstream := s.connect()
	downstream.send(startup("user", "stranger"))
	upstream := s.accept()
	upstream.startup()
	no := protocol.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed for user \"ferryman\""}
	upstream.send(no.Append(nil))
	_ = upstream.conn.Close()
	kind, body := downstream.frame()
	var told protocol.ErrorResponse
	if err := told.Decode(body); kind != 'E' || err != nil {
		t.Fatalf("got %c %q, %v", kind, body, err)
	}
	for _, want := range []string{
		"upstream " + a.Addr().String() + ": the relay's own login is refused, SQLSTATE 28P01",
		"upstream " + b.Addr().String() + ": connect: connection refused",
	} {
		if !strings.Contains(told.Message, want) {
			t.Errorf("told %q, want %q", told.Message, want)
		}
	}
	if all := string(body); strings.Contains(all, "ferryman") || strings.Contains(all, "cargo") || strings.Contains(all, "password") {
		t.Errorf("a stranger is told %q", all)
	}
	eventually(t, "the server's words in the log", func() (bool, string) {
		return strings.Contains(s.log.String(), "password authentication failed"), s.log.String()
	})
}
