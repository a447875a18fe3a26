package protocol

import "github.com/jackc/pgio"

// CaptureMagic opens every capture file.
const CaptureMagic = "SLTFCAPT"

// CaptureVersion is the version of capture files this package writes, and the
// only one it reads.
const CaptureVersion = 1

const (
	// CaptureHeaderLen is the length of a capture file's header.
	CaptureHeaderLen = 28

	// CaptureRecordOverhead is by how much a record is longer than its payload.
	CaptureRecordOverhead = captureRecordHeadLen + crcLen

	// MaxCapturePayload is the size cap of a record's payload.
	MaxCapturePayload = 1 << 20

	captureRecordHeadLen = 20
	captureSync          = 0xF51A
)

// CaptureSync are the bytes that every record begins with. Whoever looks for the
// next record in a damaged file looks for them.
var CaptureSync = []byte{captureSync >> 8, captureSync & 0xFF}

// CaptureHasSecrets is the flag of a capture whose passwords and keys were not
// masked.
const CaptureHasSecrets = 1

// CaptureHeader opens a capture file. The layout is in doc.go.
type CaptureHeader struct {
	Flags   uint16
	Created int64 // microseconds since 2000-01-01 UTC
}

// Append appends the header to dst.
func (h *CaptureHeader) Append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, CaptureMagic...)
	dst = pgio.AppendUint16(dst, CaptureVersion)
	dst = pgio.AppendUint16(dst, h.Flags)
	dst = pgio.AppendInt64(dst, h.Created)
	dst = pgio.AppendUint32(dst, 0)
	return pgio.AppendUint32(dst, checksum(dst[at:]))
}

// Decode reads a header. src may go on behind it.
func (h *CaptureHeader) Decode(src []byte) error {
	c := cursor{b: src[:min(len(src), CaptureHeaderLen)]}
	if string(c.bytes(len(CaptureMagic))) != CaptureMagic {
		c.fail(ErrMagic)
	}
	if c.u16() != CaptureVersion {
		c.fail(ErrVersion)
	}
	h.Flags = c.u16()
	h.Created = c.micros()
	c.u32()
	if sum := c.u32(); c.err == nil && sum != checksum(src[:c.at]) {
		c.fail(ErrChecksum)
	}
	return c.done("capture header")
}

// HasCaptureMagic reports whether a file that begins with src is a capture.
func HasCaptureMagic(src []byte) bool {
	return len(src) >= len(CaptureMagic) && string(src[:len(CaptureMagic)]) == CaptureMagic
}

// CaptureKind says what a record of a capture is.
type CaptureKind byte

// The kinds of a CaptureRecord.
const (
	CaptureOpened     CaptureKind = 1 // a connection was accepted; payload T downstream | T upstream
	CaptureDownstream CaptureKind = 2 // bytes from the upstream to the downstream
	CaptureUpstream   CaptureKind = 3 // bytes from the downstream to the upstream
	CaptureClosed     CaptureKind = 4 // the connection has ended; no payload
	CaptureResumed    CaptureKind = 5 // the connection goes on from an earlier file; payload CaptureResume
)

// CaptureRecord is one event of a capture.
type CaptureRecord struct {
	Kind       CaptureKind
	Time       int64 // microseconds since 2000-01-01 UTC
	Connection uint32
	Payload    []byte
}

// Append appends the record to dst.
func (r *CaptureRecord) Append(dst []byte) []byte {
	at := len(dst)
	dst = pgio.AppendUint16(dst, captureSync)
	dst = append(dst, byte(r.Kind), 0)
	dst = pgio.AppendUint32(dst, uint32(len(r.Payload)))
	dst = pgio.AppendInt64(dst, r.Time)
	dst = pgio.AppendUint32(dst, r.Connection)
	dst = append(dst, r.Payload...)
	return pgio.AppendUint32(dst, checksum(dst[at:]))
}

// Decode reads the record at the front of src and returns its length. Payload
// aliases src. ErrTruncated says that src ends within the record, which then is
// size bytes long as far as can be told (0: it cannot); every other error, that
// the bytes are damaged.
func (r *CaptureRecord) Decode(src []byte) (size int, err error) {
	c := cursor{b: src}
	if c.u16() != captureSync {
		c.fail(ErrMagic)
	}
	r.Kind = CaptureKind(c.u8())
	if c.u8() != 0 || r.Kind < CaptureOpened || r.Kind > CaptureResumed {
		c.fail(ErrType)
	}
	n := c.u32()
	if c.err == nil && n > MaxCapturePayload {
		c.fail(ErrTooLarge)
	}
	r.Time = c.micros()
	r.Connection = c.u32()
	if c.err == nil {
		size = CaptureRecordOverhead + int(n)
	}
	r.Payload = c.bytes(int(n))
	if sum := c.u32(); c.err == nil && sum != checksum(src[:c.at]) {
		c.fail(ErrChecksum)
	}
	c.b = c.b[:c.off] // what follows is the next record
	return size, c.done("capture record")
}

// CaptureEnds are the addresses of a connection.
type CaptureEnds struct{ Downstream, Upstream string }

// Append appends the payload of a CaptureOpened record.
func (e *CaptureEnds) Append(dst []byte) []byte {
	return appendText(appendText(dst, e.Downstream), e.Upstream)
}

// Decode reads the payload of a CaptureOpened record.
func (e *CaptureEnds) Decode(src []byte) error {
	c := cursor{b: src}
	e.Downstream, e.Upstream = c.text(), c.text()
	return c.done("capture ends")
}
