package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// heldConn keeps what is written, so that a test says how much of it arrives:
// parts of records, and several at once.
type heldConn struct {
	net.Conn
	passes int // so many writes are not kept
	held   []byte
}

func (c *heldConn) Write(b []byte) (int, error) {
	if c.passes > 0 {
		c.passes--
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

// SetWriteDeadline does nothing: tls.Conn's CloseWrite leaves one that has passed.
func (c *heldConn) SetWriteDeadline(time.Time) error { return nil }

// release lets n bytes go.
func (c *heldConn) release(n int) error {
	n = min(n, len(c.held))
	_, err := c.Conn.Write(c.held[:n])
	c.held = c.held[n:]
	return err
}

// heldPair returns the ends of a TLS session whose records the test lets go.
func heldPair(t testing.TB, server *tls.Config) (*wire, *tls.Conn, *heldConn) {
	t.Helper()
	near, dialed := wires(t)
	held := &heldConn{Conn: dialed, passes: math.MaxInt}
	client := tls.Client(held, &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})
	w := shakenServer(t, near, client, server)
	held.passes = 0
	return w, client, held
}

// A record that fills the inbox exactly, with a part of the next one behind it:
// the part was handed to tls, nothing looked like a whole record any more, and
// once the socket's own inbox was full the relay died.
func TestTLSWirePartBehindFullInbox(t *testing.T) {
	cert := testKeyPair(t)
	w, client, held := heldPair(t, &tls.Config{Certificates: []tls.Certificate{cert}})
	sent := bytes.Repeat([]byte("0123456789abcdef"), (bufferSize+400<<10)/16)
	write := func(b []byte) int {
		before := len(held.held)
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
		return len(held.held) - before
	}
	var in inbox
	defer in.release()
	if err := held.release(write(sent[:16000])); err != nil {
		t.Fatal(err)
	}
	if err := w.read(&in, true); err != nil || in.n != 16000 {
		t.Fatalf("%d bytes, %v", in.n, err)
	}
	whole := write(sent[16000:bufferSize])
	write(sent[bufferSize:])
	if err := held.release(whole + 5000); err != nil {
		t.Fatal(err)
	}
	for in.n < bufferSize {
		if err := w.read(&in, true); err != nil {
			t.Fatal(err)
		}
	}
	got := bytes.Clone(in.bytes())
	in.consume(in.n)
	if err := w.read(&in, false); err != errNoBytes {
		t.Fatalf("a part of a record gives %d bytes, %v", in.n, err)
	}
	rest := make(chan error, 1)
	go func() { rest <- held.release(len(held.held)) }()
	for len(got) < len(sent) {
		if err := w.read(&in, true); err != nil {
			t.Fatal(err)
		}
		got = append(got, in.bytes()...)
		in.consume(in.n)
	}
	if err := <-rest; err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
}

// Whatever the sizes of records, however they arrive, and however little of the
// inbox its owner empties, the bytes come through in order and whole.
func TestTLSWireAnyInbox(t *testing.T) {
	cert := testKeyPair(t)
	rapid.Check(t, func(r *rapid.T) {
		version := rapid.SampledFrom([]uint16{tls.VersionTLS12, tls.VersionTLS13}).Draw(r, "version")
		w, client, held := heldPair(t, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version})
		defer w.close()
		var sent, got []byte
		var in inbox
		defer in.release()
		// The rests that matter are few: none, one byte, a record more or less.
		near := rapid.SampledFrom([]int{0, 1, 2, 4, 5, 6, 16, 17, 16383, 16384, 16385, 16400, 65536, bufferSize - 1, bufferSize})
		amount := rapid.OneOf(near, rapid.IntRange(0, bufferSize))
		read := func(wait bool) error {
			if in.n == bufferSize {
				return errInboxFull
			}
			before := in.n
			err := w.read(&in, wait)
			got = append(got, in.bytes()[min(before, in.n):]...)
			return err
		}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			switch rapid.IntRange(0, 3).Draw(r, "step") {
			case 0:
				b := make([]byte, amount.Draw(r, "write"))
				for i := range b {
					b[i] = byte((len(sent) + i) * 2654435761 >> 13)
				}
				if _, err := client.Write(b); err != nil {
					r.Fatal(err)
				}
				sent = append(sent, b...)
			case 1:
				// No more than the reader can take, or nobody would read it.
				n := min(len(held.held), amount.Draw(r, "arrive"))
				arrived := make(chan error, 1)
				go func() { arrived <- held.release(n) }()
				for open := true; open; {
					select {
					case err := <-arrived:
						if err != nil {
							r.Fatal(err)
						}
						open = false
					default:
						if err := read(false); err == errInboxFull {
							in.consume(in.n)
						} else if err != nil && err != errNoBytes {
							r.Fatal(err)
						}
					}
				}
			case 2:
				in.consume(min(in.n, amount.Draw(r, "consume")))
			case 3:
				in.most = amount.Draw(r, "most")
				if err := read(false); err != nil && err != errNoBytes && err != errInboxFull {
					r.Fatal(err)
				}
			}
		}
		if err := client.CloseWrite(); err != nil {
			r.Fatal(err)
		}
		arrived := make(chan error, 1)
		go func() { arrived <- held.release(len(held.held)) }()
		_ = w.conn.SetReadDeadline(time.Now().Add(20 * time.Second)) // one that hangs
		for {
			in.consume(max(0, in.n-amount.Draw(r, "left")))
			if in.n == bufferSize {
				in.consume(1)
			}
			if err := read(true); err != nil {
				if err != io.EOF {
					r.Fatalf("%d bytes of %d: %v", len(got), len(sent), err)
				}
				break
			}
		}
		if err := <-arrived; err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(got, sent) {
			r.Fatalf("%d bytes of %d came through", len(got), len(sent))
		}
	})
}

// What a server says for TLS itself behind the handshake, session tickets, comes in
// one read with what follows: that is not handed out in parts either.
func TestTLSWirePartBehindTicket(t *testing.T) {
	near, dialed := wires(t)
	held := &heldConn{Conn: dialed, passes: 1} // the server's part of the handshake
	server := tls.Server(held, &tls.Config{
		Certificates: []tls.Certificate{testKeyPair(t)}, DynamicRecordSizingDisabled: true,
		ClientAuth: tls.RequestClientCert, // then the ticket is sent behind the client's part
	})
	w := tlsWire(near, nil, func(c net.Conn) *tls.Conn {
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1)})
	})
	shaken := make(chan error, 1)
	go func() { shaken <- w.shake() }()
	if err := errors.Join(server.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	ticket := len(held.held)
	if ticket == 0 {
		t.Fatal("the server has sent no ticket")
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	if _, err := server.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := held.release(ticket + 100); err != nil {
		t.Fatal(err)
	}
	var in inbox
	defer in.release()
	deadline := time.Now().Add(10 * time.Second)
	for w.sock.in.n != 100 { // both have come, and the part is left
		if err := w.read(&in, false); err != errNoBytes {
			t.Fatalf("a ticket and a part of a record give %d bytes, %v", in.n, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("of a ticket and a part of a record %d bytes are left", w.sock.in.n)
		}
	}
	if err := held.release(len(held.held)); err != nil {
		t.Fatal(err)
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for in.n < len(sent) {
		if err := w.read(&in, true); err != nil {
			t.Fatalf("%d bytes of %d: %v", in.n, len(sent), err)
		}
	}
	if !bytes.Equal(in.bytes(), sent) {
		t.Error("other bytes came through")
	}
}

// A read to an inbox without room is an error of that session.
func TestWireFullInbox(t *testing.T) {
	bare, far := wires(t)
	if _, err := far.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	encrypted, client := tlsPair(t, &tls.Config{Certificates: []tls.Certificate{testKeyPair(t)}})
	if _, err := client.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	for name, w := range map[string]*wire{"bare": bare, "TLS": encrypted, "no socket": newWire(ours)} {
		var in inbox
		in.n = len(in.room())
		if err := w.read(&in, true); err != errInboxFull {
			t.Errorf("%s: %v", name, err)
		}
		in.n = 0
		in.rest()
	}
}
