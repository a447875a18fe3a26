package relay

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// Peers that speak byte by byte what the test says, on loopback sockets.

const scriptTimeout = 10 * time.Second

// peer is one end of a scripted connection. Its methods end the test when they
// fail.
type peer struct {
	t    testing.TB
	conn net.Conn
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	_ = p.conn.SetWriteDeadline(time.Now().Add(scriptTimeout))
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("send %d bytes: %v", len(b), err)
	}
}

// read reads exactly n bytes.
func (p *peer) read(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	_ = p.conn.SetReadDeadline(time.Now().Add(scriptTimeout))
	if got, err := io.ReadFull(p.conn, b); err != nil {
		p.t.Fatalf("read %d bytes: %v after %q", n, err, b[:got])
	}
	return b
}

// expect reads as many bytes as want has, and compares.
func (p *peer) expect(want []byte) {
	p.t.Helper()
	if got := p.read(len(want)); string(got) != string(want) {
		p.t.Fatalf("got  %q\nwant %q", got, want)
	}
}

// frame reads one frame.
func (p *peer) frame() (kind byte, body []byte) {
	p.t.Helper()
	head := p.read(5)
	return head[0], p.read(int(binary.BigEndian.Uint32(head[1:])) - 4)
}

// fatal reads an ErrorResponse and the end of the connection.
func (p *peer) fatal(code, text string) {
	p.t.Helper()
	kind, body := p.frame()
	var e protocol.ErrorResponse
	if err := e.Decode(body); kind != 'E' || err != nil || e.Severity != "FATAL" || e.Code != code ||
		!strings.Contains(e.Message, text) {
		p.t.Fatalf("got %c %+v, %v, want FATAL %s with %q", kind, e, err, code, text)
	}
	p.ended()
}

// ended reads the end of the connection, clean or not.
func (p *peer) ended() {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(scriptTimeout))
	var b [256]byte
	n, err := p.conn.Read(b[:])
	if err == nil || isTimeout(err) {
		p.t.Fatalf("the connection is open: %q, %v", b[:n], err)
	}
}

// startup reads a startup packet.
func (p *peer) startup() []byte {
	p.t.Helper()
	length := p.read(4)
	return append(length, p.read(int(binary.BigEndian.Uint32(length))-4)...)
}

// scripted is a relay between scripted peers.
type scripted struct {
	t     testing.TB
	relay *Relay
	log   *lockedLog
	lis   net.Listener // the upstream's
	stop  func()
}

type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newScripted(t testing.TB, cfg Config) *scripted {
	t.Helper()
	s := &scripted{t: t, log: new(lockedLog)}
	var err error
	if s.lis, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.lis.Close() })
	if len(cfg.Listen) == 0 {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	if cfg.Upstream == "" {
		cfg.Upstream = upstreamConninfo(s.lis)
	}
	cfg.Logger = zerolog.New(s.log)
	if s.relay, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.relay.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.relay.Run(ctx) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Run: %v", err)
				}
			case <-time.After(scriptTimeout):
				t.Error("Run does not end")
			}
		})
	}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("log of the relay:\n%s", s.log)
		}
	})
	return s
}

func upstreamConninfo(l net.Listener) string {
	host, port, _ := net.SplitHostPort(l.Addr().String())
	return "host=" + host + " port=" + port + " sslmode=disable"
}

// connect opens a downstream connection.
func (s *scripted) connect() *peer {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.relay.Addrs()[0].String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &peer{s.t, conn}
}

// accept takes the relay's connection to the upstream.
func (s *scripted) accept() *peer {
	s.t.Helper()
	_ = s.lis.(*net.TCPListener).SetDeadline(time.Now().Add(scriptTimeout))
	conn, err := s.lis.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &peer{s.t, conn}
}

// login goes through a startup without a password.
func (s *scripted) login(pairs ...string) (downstream, upstream *peer) {
	s.t.Helper()
	downstream = s.connect()
	downstream.send(startup(pairs...))
	upstream = s.accept()
	upstream.startup()
	upstream.send(loginAnswer)
	downstream.expect(loginAnswer)
	return downstream, upstream
}

// stream goes on to a physical stream from 0/3000000.
func (s *scripted) stream(pairs ...string) (downstream, upstream *peer) {
	s.t.Helper()
	downstream, upstream = s.login(pairs...)
	start := query("START_REPLICATION SLOT \"s\" 0/3000000 TIMELINE 1")
	downstream.send(start)
	upstream.expect(start)
	w := protocol.AppendCopyBothResponse(nil)
	upstream.send(w)
	downstream.expect(w)
	return downstream, upstream
}

// loginAnswer is AuthenticationOk, ParameterStatus, BackendKeyData, ReadyForQuery.
var loginAnswer = func() []byte {
	b := []byte{'R', 0, 0, 0, 8, 0, 0, 0, 0}
	b = append(b, "S\x00\x00\x00\x0aa\x00bcd\x00"...)
	b = append(b, 'K', 0, 0, 0, 12, 0, 0, 0, 42, 1, 2, 3, 4)
	return protocol.AppendReadyForQuery(b)
}()

func startup(pairs ...string) []byte {
	m := protocol.StartupMessage{Version: protocol.ProtocolVersion3}
	for i := 0; i < len(pairs); i += 2 {
		m.Parameters = append(m.Parameters, protocol.StartupParameter{Name: pairs[i], Value: pairs[i+1]})
	}
	return m.Append(nil)
}

func query(text string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(text)+5))
	return append(append(b, text...), 0)
}

func walFrame(start protocol.LSN, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	m := protocol.XLogData{DataStart: start, WALEnd: start + 0x1000, SendTime: 5, Data: data}
	return protocol.AppendCopyData(nil, m.Append(nil))
}

// source returns a slot source that the test publishes for.
func testSource(t testing.TB) *SlotSource {
	t.Helper()
	s, err := NewSlotSource(SlotSourceConfig{Conninfo: "host=127.0.0.1 user=x dbname=x"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// publishSlots publishes a message with n slots.
func publishSlots(t testing.TB, s *SlotSource, sequence uint64, n int) *publication {
	t.Helper()
	m := &protocol.SlotMessage{Epoch: 9, Sequence: sequence, SystemIdentifier: 7, CaptureLSN: 0x3000100}
	for i := range n {
		m.Slots = append(m.Slots, protocol.SlotState{
			Name: fmt.Sprintf("slot_%d_%s", i, strings.Repeat("x", 50)), Plugin: "pgoutput", Database: "postgres",
		})
	}
	parts, err := m.Parts(0)
	if err != nil {
		t.Fatal(err)
	}
	p := &publication{message: m, parts: parts}
	s.publish(p)
	return p
}

// slotMessage reads frames until a slot message is whole, and returns it with
// the WALEnd of its last part.
func (p *peer) slotMessage() (*protocol.SlotMessage, protocol.LSN) {
	p.t.Helper()
	var a protocol.Assembler
	for {
		kind, body := p.frame()
		var x protocol.XLogData
		if kind != 'd' || x.Decode(body[1:]) != nil || body[0] != 'w' || x.DataStart != 0 {
			p.t.Fatalf("got frame %c %q, want a slot message", kind, body[:min(len(body), 40)])
		}
		m, err := a.Add(x.Data)
		if err != nil {
			p.t.Fatal(err)
		}
		if m != nil {
			return m, x.WALEnd
		}
	}
}

func eventually(t testing.TB, what string, check func() (bool, string)) {
	t.Helper()
	poll.Require(t, scriptTimeout, what, func(context.Context) (bool, string) { return check() })
}
