package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/slotferry/slotferry/protocol"
)

// bufferSize holds the longest record.
const bufferSize = 2 << 20

// DamageError says that bytes of a capture are no record. Reading goes on behind
// them.
type DamageError struct {
	Offset int64 // where they begin in the file
	Length int64
	Err    error
}

// Error says where the file is damaged.
func (e *DamageError) Error() string {
	return fmt.Sprintf("capture is damaged at byte %d, %d bytes are skipped: %v", e.Offset, e.Length, e.Err)
}

// Unwrap returns why.
func (e *DamageError) Unwrap() error { return e.Err }

// TornError says that a capture ends within a record, as it does when whoever
// wrote it was killed. What came before is whole.
type TornError struct {
	Offset int64 // where the record begins in the file
	Length int64 // how much of it is there
}

// Error says where the file ends.
func (e *TornError) Error() string {
	return fmt.Sprintf("capture is torn: it ends %d bytes into the record that begins at byte %d", e.Length, e.Offset)
}

// Unwrap makes it an io.ErrUnexpectedEOF.
func (e *TornError) Unwrap() error { return io.ErrUnexpectedEOF }

// Reader reads the records of a capture.
type Reader struct {
	src    io.Reader
	buf    []byte
	r, w   int
	offset int64 // in the file, of buf[r]
	eof    bool
	err    error

	Header protocol.CaptureHeader
}

// NewReader reads the header of a capture.
func NewReader(src io.Reader) (*Reader, error) {
	r := &Reader{src: src, buf: make([]byte, bufferSize)}
	r.fill(protocol.CaptureHeaderLen)
	err := r.Header.Decode(r.buf[:r.w])
	switch {
	case r.err != nil:
		return nil, r.err
	case errors.Is(err, protocol.ErrTruncated):
		return nil, &TornError{Length: int64(r.w)}
	case err != nil:
		return nil, err
	}
	r.take(protocol.CaptureHeaderLen)
	return r, nil
}

// Offset returns where the next record begins in the file.
func (r *Reader) Offset() int64 { return r.offset }

// Next reads a record. Its Payload is valid until the next call. io.EOF is the
// end behind a whole record, a TornError the end within one. After a DamageError
// reading can go on; other errors are sticky.
func (r *Reader) Next(rec *protocol.CaptureRecord) error {
	n, err := r.decode(rec)
	switch {
	case err == nil:
		r.take(n)
		return nil
	case r.err != nil:
		return r.err
	case r.w == r.r:
		return io.EOF
	case errors.Is(err, protocol.ErrTruncated) && !r.whole(1):
		torn := &TornError{Offset: r.offset, Length: int64(r.w - r.r)}
		r.take(r.w - r.r)
		return torn
	}
	return r.skip(err)
}

// decode reads the record at the front of the buffer, which it fills as needed.
func (r *Reader) decode(rec *protocol.CaptureRecord) (int, error) {
	n, err := rec.Decode(r.buf[r.r:r.w])
	if errors.Is(err, protocol.ErrTruncated) && !r.eof {
		r.fill(max(n, protocol.CaptureRecordOverhead))
		n, err = rec.Decode(r.buf[r.r:r.w])
		if errors.Is(err, protocol.ErrTruncated) && n > r.w-r.r && !r.eof {
			r.fill(n)
			n, err = rec.Decode(r.buf[r.r:r.w])
		}
	}
	return n, err
}

// whole reports whether a whole record begins in the buffer at least from bytes
// behind its front: then a record that is cut short has a damaged length.
func (r *Reader) whole(from int) bool { return r.find(from) >= 0 }

// find returns how far behind the front of the buffer the next whole record
// begins; -1 when there is none.
func (r *Reader) find(from int) int {
	var rec protocol.CaptureRecord
	b := r.buf[r.r:r.w]
	for at := from; at < len(b); at++ {
		next := bytes.Index(b[at:], protocol.CaptureSync)
		if next < 0 {
			return -1
		}
		at += next
		if _, err := rec.Decode(b[at:]); err == nil {
			return at
		}
	}
	return -1
}

// skip passes over damaged bytes, up to the next whole record.
func (r *Reader) skip(cause error) error {
	damage := &DamageError{Offset: r.offset, Err: cause}
	for {
		r.fill(len(r.buf))
		if r.err != nil {
			return r.err
		}
		n := r.find(1)
		if n < 0 && !r.eof {
			// The next record may lie across the end of the buffer.
			n = max(1, r.w-r.r-protocol.MaxCapturePayload-protocol.CaptureRecordOverhead)
			damage.Length += int64(n)
			r.take(n)
			continue
		}
		if n < 0 {
			n = r.w - r.r
		}
		damage.Length += int64(n)
		r.take(n)
		return damage
	}
}

func (r *Reader) take(n int) {
	r.r += n
	r.offset += int64(n)
}

// fill reads until n bytes are in the buffer, or the file ends.
func (r *Reader) fill(n int) {
	if r.w-r.r >= n || r.eof {
		return
	}
	if r.r > 0 {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	for r.w < n && !r.eof {
		got, err := r.src.Read(r.buf[r.w:])
		r.w += got
		switch {
		case err == io.EOF:
			r.eof = true
		case err != nil:
			r.eof, r.err = true, fmt.Errorf("read capture: %w", err)
		}
	}
}
