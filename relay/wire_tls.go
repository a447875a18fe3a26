package relay

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// tlsRecordHeader is the length of a TLS record's header: type, version,
// length (RFC 8446, 5.1).
const tlsRecordHeader = 5

// gatherSize holds the records of one write of a pump, with their headers and
// tags.
const gatherSize = bufferSize + 4<<10

var gatherBuffers = sync.Pool{New: func() any { return new([gatherSize]byte) }}

// tlsSocket stands between a tls.Conn and its socket. By itself a tls.Conn
// makes a system call for each record, which is an eighth of a buffer. The
// socket reads as much as is there and hands it out record by record, so that
// it knows whether another whole one is here; and it gathers the records of one
// write into one system call.
type tlsSocket struct {
	base *wire

	// Owned by the reader.
	in     inbox // records, from off on
	off    int
	rest   int  // bytes of the record being handed out
	nowait bool // end a read with errNoBytes where no whole record is here

	// mu guards what follows: a reader writes too, to answer a key update.
	mu        sync.Mutex
	gathering bool
	out       *[gatherSize]byte
	n         int
}

// whole reports whether a whole record is here.
func (s *tlsSocket) whole() bool {
	b := s.in.bytes()[min(s.off, s.in.n):]
	return s.rest == 0 && len(b) >= tlsRecordHeader && len(b) >= recordLen(b)
}

func recordLen(b []byte) int { return tlsRecordHeader + int(binary.BigEndian.Uint16(b[3:])) }

// fill reads from the socket once.
func (s *tlsSocket) fill(wait bool) error {
	s.in.consume(s.off)
	s.off = 0
	return s.base.read(&s.in, wait)
}

// Read hands out what is left of one record, and never a byte of the next:
// what a tls.Conn keeps for itself could not be seen from here. Without waiting it
// hands out whole records only: a part would stay in the tls.Conn, and what
// follows would never look like a whole record again.
func (s *tlsSocket) Read(p []byte) (int, error) {
	if s.nowait && s.rest == 0 && !s.whole() {
		return 0, errNoBytes
	}
	need := 1
	if s.rest == 0 {
		need = tlsRecordHeader
	}
	for s.in.n-s.off < need {
		s.in.consume(s.off)
		s.off = 0
		if err := s.base.readSlowly(&s.in); err != nil {
			if errors.Is(err, io.EOF) && s.in.n > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	b := s.in.bytes()[s.off:]
	if s.rest == 0 {
		s.rest = recordLen(b)
	}
	n := copy(p, b[:min(s.rest, len(b))])
	s.rest -= n
	s.off += n
	if s.off == s.in.n {
		s.in.consume(s.off)
		s.off = 0
	}
	return n, nil
}

// Write writes records, or keeps them for flush.
func (s *tlsSocket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gathering {
		return len(b), s.base.write(b)
	}
	if s.out == nil {
		s.out = gatherBuffers.Get().(*[gatherSize]byte)
	}
	if s.n+len(b) > len(s.out) {
		if err := s.flushLocked(); err != nil {
			return 0, err
		}
	}
	if len(b) > len(s.out) {
		return len(b), s.base.write(b)
	}
	s.n += copy(s.out[s.n:], b)
	return len(b), nil
}

func (s *tlsSocket) flushLocked() error {
	n := s.n
	s.n = 0
	return s.base.write(s.out[:n])
}

// gather keeps what is written until flush.
func (s *tlsSocket) gather() {
	s.mu.Lock()
	s.gathering = true
	s.mu.Unlock()
}

func (s *tlsSocket) flush() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering = false
	if s.out != nil {
		err = s.flushLocked()
		gatherBuffers.Put(s.out)
		s.out = nil
	}
	return err
}

// Close closes the socket.
func (s *tlsSocket) Close() error                       { return s.base.conn.Close() }
func (s *tlsSocket) LocalAddr() net.Addr                { return s.base.conn.LocalAddr() }
func (s *tlsSocket) RemoteAddr() net.Addr               { return s.base.conn.RemoteAddr() }
func (s *tlsSocket) SetDeadline(t time.Time) error      { return s.base.conn.SetDeadline(t) }
func (s *tlsSocket) SetReadDeadline(t time.Time) error  { return s.base.conn.SetReadDeadline(t) }
func (s *tlsSocket) SetWriteDeadline(t time.Time) error { return s.base.conn.SetWriteDeadline(t) }

// tlsWire returns the wire that a TLS session on base is, before its handshake.
// seen is what was read of it already. base must not be used any more.
func tlsWire(base *wire, seen []byte, begin func(net.Conn) *tls.Conn) *wire {
	s := &tlsSocket{base: base}
	if len(seen) > 0 {
		s.in.n = copy(s.in.room(), seen)
	}
	conn := begin(s)
	w := &wire{conn: conn, tls: conn, sock: s, record: base.record}
	base.record = nil // what is said inside is worth more
	return w
}

// tlsRead reads as many records as are here and fit, and waits for the first.
func (w *wire) tlsRead(in *inbox, wait bool) error {
	had := in.n
	for {
		if w.ended != nil && in.n == had {
			in.rest()
			return w.ended
		}
		if w.ended == nil && (w.inside || w.sock.whole()) {
			room := in.room()
			w.sock.nowait = true
			n, err := w.conn.Read(room)
			w.sock.nowait = false
			in.n += n
			w.inside = n == len(room) // there may be more of this record
			if err != nil && !errors.Is(err, errNoBytes) {
				w.ended = err // close_notify comes once
			}
			if in.n == bufferSize {
				return nil
			}
			continue
		}
		if in.n > had {
			return nil
		}
		in.rest() // no buffer while nothing is there
		err := w.sock.fill(wait)
		switch {
		case errors.Is(err, io.EOF): // without close_notify, as servers that die end
			return err
		case err != nil:
			return err
		}
	}
}

// tlsWrite writes all of b with one system call where it fits.
func (w *wire) tlsWrite(b []byte) error {
	w.sock.gather()
	_, err := w.conn.Write(b)
	if e := w.sock.flush(); err == nil {
		err = e
	}
	return err
}

// tlsVersion names the version of TLS, "" where there is none or the handshake
// goes on.
func (w *wire) tlsVersion() string {
	if w == nil || !w.shaken.Load() {
		return ""
	}
	return tls.VersionName(w.tls.ConnectionState().Version)
}

// unshaken reports whether there is TLS without a handshake, so far.
func (w *wire) unshaken() bool { return w.tls != nil && !w.shaken.Load() }

// shake makes the handshake.
func (w *wire) shake() error {
	err := w.tls.Handshake()
	w.shaken.Store(err == nil)
	return err
}
