package relay

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/slotferry/slotferry/internal/testcert"
)

// wires returns both ends of a connection on loopback.
func wires(t testing.TB) (near *wire, far net.Conn) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	dialed, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return newWire(accepted), dialed
}

// tlsPair returns the two ends of a TLS session on loopback: a wire, and a
// tls.Conn that counts nothing and gathers nothing.
func tlsPair(t *testing.T, server *tls.Config) (*wire, *tls.Conn) {
	t.Helper()
	near, dialed := wires(t)
	client := tls.Client(dialed, &tls.Config{InsecureSkipVerify: true})
	return shakenServer(t, near, client, server), client
}

// shakenServer makes the handshake between a wire on near and its client.
func shakenServer(t testing.TB, near *wire, client *tls.Conn, server *tls.Config) *wire {
	t.Helper()
	w := tlsWire(near, nil, func(c net.Conn) *tls.Conn { return tls.Server(c, server) })
	done := make(chan error, 1)
	go func() { done <- w.shake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return w
}

// testKeyPair returns a certificate for a server on this host.
func testKeyPair(t testing.TB) tls.Certificate {
	t.Helper()
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair([]byte(pair.Cert), []byte(pair.Key))
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Bytes come through in order and whole, whatever the sizes of records, reads and
// writes, in both versions of TLS.
func TestTLSWire(t *testing.T) {
	cert := testKeyPair(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		w, client := tlsPair(t, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version, DynamicRecordSizingDisabled: true})
		var in inbox
		err := w.read(&in, false)
		if err != errNoBytes {
			t.Errorf("nothing to read gives %v", err)
		}
		if in.buf != nil || w.sock.in.buf != nil {
			t.Error("a buffer is held while nothing is there")
		}
		sent := make([]byte, 3<<20+7)
		_, _ = rand.Read(sent)
		go func() {
			for b, n := sent, 1; len(b) > 0; n = n*3%90001 + 1 {
				n := min(n, len(b))
				if _, err := client.Write(b[:n]); err != nil {
					t.Error(err)
					return
				}
				b = b[n:]
			}
			_ = client.CloseWrite()
		}()
		var got []byte
		for err = nil; err == nil; {
			if err = w.read(&in, true); err == nil {
				got = append(got, in.bytes()...)
				in.consume(in.n)
			}
		}
		if err != io.EOF || !bytes.Equal(got, sent) {
			t.Errorf("%s: %d bytes of %d, %v", tls.VersionName(version), len(got), len(sent), err)
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			for b := sent; len(b) > 0; {
				n := min(bufferSize, len(b))
				if err := w.write(b[:n]); err != nil {
					t.Error(err)
					return
				}
				b = b[n:]
			}
			w.closeWrite()
		}()
		if got, err = io.ReadAll(client); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: %d bytes of %d back, %v", tls.VersionName(version), len(got), len(sent), err)
		}
		if <-written; w.sock.out != nil {
			t.Error("a buffer is held after a write")
		}
		w.close()
	}
}
