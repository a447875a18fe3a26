package relay

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// An ErrorResponse in the place of the answer to SSLRequest passes as it is. It made
// the relay say that the session is encrypted, and never say it again.
func TestErrorForSSLRequestIsNoEncryption(t *testing.T) {
	s := newScripted(t, Config{Mode: ModeSplice})
	request := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)
	asked := func(answer string) (downstream, upstream *peer) {
		downstream = s.connect()
		downstream.send(request)
		upstream = s.accept()
		upstream.expect(request)
		upstream.send([]byte(answer))
		downstream.expect([]byte(answer))
		return downstream, upstream
	}
	const opaque = "a session is encrypted end to end"
	downstream, upstream := asked("Ecould not fork new process for connection\n\x00")
	if st := s.relay.Status().Sessions[0]; st.Kind != KindUnknown {
		t.Errorf("the session is %s", st.Kind)
	}
	_ = upstream.conn.Close()
	downstream.ended()
	if log := s.log.String(); strings.Contains(log, opaque) {
		t.Errorf("log:\n%s", log)
	}
	asked("S")
	eventually(t, "the warning about encryption", func() (bool, string) {
		return strings.Contains(s.log.String(), opaque), s.log.String()
	})
}

// That the upstream cannot be reached is taken back when it answers, whether or not
// there is ever a physical stream; what it says itself is not.
func TestUpstreamErrorIsTakenBack(t *testing.T) {
	r, err := New(Config{Listen: []string{"127.0.0.1:0"}, Upstream: "host=127.0.0.1", Mode: ModeSplice})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() *UpstreamError { return r.Status().UpstreamError }
	away := &ending{code: codeConnectionFailure, message: "no", err: errors.New("no")}
	r.upstreamReached(away)
	if shown() == nil {
		t.Fatal("not shown")
	}
	r.upstreamReached(nil)
	if e := shown(); e != nil {
		t.Errorf("reached again, and still %+v", e)
	}
	r.upstreamReached(away)
	said := &UpstreamError{Code: "42704", Message: "replication slot \"s\" does not exist"}
	r.sawUpstream(said, true)
	r.upstreamReached(nil)
	if shown() == nil || *shown() != *said {
		t.Errorf("what the server said is %+v", shown())
	}
}

// Words to a client whose TLS handshake has not begun would begin it, and wait.
func TestNothingIsSaidBeforeTheHandshake(t *testing.T) {
	near, far := net.Pipe() // a write waits for its reader
	defer far.Close()
	s := &session{relay: &Relay{cfg: Config{DrainTimeout: time.Second}}}
	s.downstream = tlsWire(newWire(near), nil, func(c net.Conn) *tls.Conn { return tls.Server(c, &tls.Config{}) })
	defer s.downstream.close()
	_ = s.downstream.conn.SetDeadline(time.Now().Add(scriptTimeout))
	began := time.Now()
	s.refuse(endShutdown())
	errCrowded.say(s.downstream)
	if d := time.Since(began); d > scriptTimeout/2 {
		t.Errorf("it took %v", d)
	}
}

// psql connects without a password, leaves when it is asked for one, and comes again:
// no error, and both causes are named.
func TestLoginLeftAtOffer(t *testing.T) {
	ends := new(ServerTLS)
	ends.now.Store(&tls.Config{Certificates: []tls.Certificate{testKeyPair(t)}})
	s := newScripted(t, Config{Mode: ModeSplice, TLS: ends})
	for range 2 {
		bare := s.connect()
		bare.send(protocol.AppendStartupRequest(nil, protocol.SSLRequestCode))
		bare.expect([]byte{'S'})
		downstream := &peer{t, tls.Client(bare.conn, &tls.Config{InsecureSkipVerify: true})}
		downstream.send(startup("user", "a"))
		upstream := s.accept()
		upstream.startup()
		offer := protocol.AppendAuthenticationSASL(nil, []string{"SCRAM-SHA-256"})
		upstream.send(offer)
		downstream.expect(offer)
		_ = downstream.conn.Close()
		upstream.ended()
	}
	const line = "a client ended its login when SCRAM without channel binding was offered"
	eventually(t, "a line", func() (bool, string) { return strings.Contains(s.log.String(), line), s.log.String() })
	log := s.log.String()
	for _, want := range []string{"no password yet", "channel_binding=disable", `"level":"info","hint":"It has`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Count(log, line) != 1 || strings.Contains(log, `"level":"error"`) {
		t.Errorf("log:\n%s", log)
	}
}
