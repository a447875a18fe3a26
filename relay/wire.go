package relay

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bufferSize is the size of a pump's buffer. Measured: half of it costs a
// tenth more CPU, eight times as much leaves the cache.
const bufferSize = 128 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// inbox holds the bytes that were read and are not dealt with yet. It has a
// buffer only while there are some.
type inbox struct {
	buf  *[bufferSize]byte
	n    int
	most int // to read at once; 0: all that fits
}

func (in *inbox) bytes() []byte {
	if in.buf == nil {
		return nil
	}
	return in.buf[:in.n]
}

// room returns where to read to.
func (in *inbox) room() []byte {
	if in.buf == nil {
		in.buf = buffers.Get().(*[bufferSize]byte)
	}
	if in.most > 0 {
		return in.buf[in.n:min(in.n+in.most, bufferSize)]
	}
	return in.buf[in.n:]
}

// consume forgets the first n bytes.
func (in *inbox) consume(n int) {
	if n > 0 {
		in.n = copy(in.buf[:], in.buf[n:in.n])
	}
	in.rest()
}

// rest gives an empty buffer back.
func (in *inbox) rest() {
	if in.n == 0 {
		in.release()
	}
}

func (in *inbox) release() {
	if in.buf != nil {
		buffers.Put(in.buf)
	}
	*in = inbox{}
}

// wire is one connection of a session. One goroutine reads and one writes it;
// nudge and Close may be called by any.
type wire struct {
	conn net.Conn
	raw  syscall.RawConn // nil where there is no socket, or TLS on it
	tls  *tls.Conn       // conn itself; nil without TLS
	sock *tlsSocket      // below tls

	shaken  atomic.Bool // the TLS handshake is over
	inside  bool        // part of a record may be left in tls; owned by the reader
	ended   error       // why tls has no more to read; owned by the reader
	reading rawReading  // owned by the reader
	writing rawWriting  // owned by the writer

	// record is told what was read and what is about to be written; nil: nobody.
	record func(Direction, []byte)
}

// errNoBytes says that a read that must not wait found nothing. It is temporary
// in the sense of net.Error, for a tls.Conn to go on after it.
var errNoBytes error = noBytesError{}

type noBytesError struct{}

func (noBytesError) Error() string   { return "nothing to read" }
func (noBytesError) Timeout() bool   { return false }
func (noBytesError) Temporary() bool { return true }

// errInboxFull says that there is no room to read to. Whoever reads makes room
// first, so that this is a fault of ours; it ends one session and not the relay.
var errInboxFull = errors.New("no room is left for more bytes")

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

func newWire(conn net.Conn) *wire {
	w := &wire{conn: conn}
	switch c := conn.(type) {
	case *net.TCPConn:
		w.raw = rawConn(c)
	case *net.UnixConn:
		w.raw = rawConn(c)
	}
	w.reading.call, w.writing.call = w.reading.try, w.writing.try
	return w
}

// read reads once to the inbox. Without wait it is errNoBytes when nothing is
// there. io.EOF says that the peer sends no more.
func (w *wire) read(in *inbox, wait bool) error {
	if w.record == nil {
		return w.readOnce(in, wait)
	}
	before := in.n
	err := w.readOnce(in, wait)
	if in.n > before {
		w.record(Upstream, in.buf[before:in.n])
	}
	return err
}

func (w *wire) readOnce(in *inbox, wait bool) error {
	switch {
	case in.n == bufferSize:
		return errInboxFull
	case w.raw != nil:
		return w.rawRead(in, wait)
	case w.tls != nil:
		return w.tlsRead(in, wait)
	}
	if !wait {
		if err := w.conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
		defer w.quiet()
	}
	n, err := w.conn.Read(in.room())
	in.n += n
	in.rest()
	if !wait && isTimeout(err) {
		return errNoBytes
	}
	if n > 0 {
		return nil // an error will come again
	}
	return err
}

// bare reports whether the bytes on the socket are those of the session, and
// nobody records them.
func (w *wire) bare() bool { return w.raw != nil && w.record == nil }

// goesOn says whether more is written right behind the next write: it may wait for
// that, to leave in one packet. It is for raw connections only.
func (w *wire) goesOn(more bool) { w.writing.more = more }

// write writes all of b.
func (w *wire) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if w.record != nil {
		w.record(Downstream, b)
	}
	switch {
	case w.raw != nil:
		return w.rawWrite(b)
	case w.tls != nil:
		return w.tlsWrite(b)
	}
	_, err := w.conn.Write(b)
	return err
}

// nudge makes a read that waits, or the next one, end with a timeout. Bytes
// are never lost by it: a read that has some returns them.
func (w *wire) nudge() { _ = w.conn.SetReadDeadline(aLongTimeAgo) }

// quiet takes the nudge back. Whoever does so looks afterwards for what the
// nudge was about, so that one that came in between is not missed.
func (w *wire) quiet() { _ = w.conn.SetReadDeadline(time.Time{}) }

// closeWrite tells the peer that no more comes.
func (w *wire) closeWrite() {
	if w.tls != nil {
		_ = w.tls.CloseWrite() // waits 5 s at most
		w.sock.base.closeWrite()
		return
	}
	if c, ok := w.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// close closes the socket. It says nothing to the peer and so never waits.
func (w *wire) close() {
	if w.tls != nil {
		_ = w.sock.Close()
		return
	}
	_ = w.conn.Close()
}

// isTimeout reports whether a deadline has passed. What the kernel gives up on,
// ETIMEDOUT, is none: that connection is over.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// tune sets what every connection of a relay has: no Nagle, keepalives, and
// the user timeout where one is given.
func (u *upstreamAddrs) tune(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	_ = tcp.SetKeepAliveConfig(u.keepalive)
	if u.userTimeout > 0 {
		setUserTimeout(tcp, u.userTimeout)
	}
}
