package protocol

import "github.com/jackc/pgio"

// CancelRequest asks, on a connection of its own, to cancel the command of
// another session. There is no answer.
//
//	Int32 length | Int32 code | Int32 PID | Byte[n] Key
type CancelRequest struct {
	PID uint32
	Key []byte // 4 bytes; 4 to 256 from protocol 3.2 on
}

// Decode reads a whole packet, length field included. Key aliases src.
func (m *CancelRequest) Decode(src []byte) error {
	c := cursor{b: src}
	if length := c.u32(); c.err == nil && int64(length) != int64(len(src)) {
		c.fail(ErrFrameLength)
	}
	if code := c.u32(); c.err == nil && code != CancelRequestCode {
		c.fail(ErrType)
	}
	m.PID = c.u32()
	m.Key = c.rest()
	if c.err == nil && (len(m.Key) < 4 || len(m.Key) > 256) {
		c.fail(ErrInvalid)
	}
	return c.done("CancelRequest")
}

// Append appends the whole packet to dst.
func (m *CancelRequest) Append(dst []byte) []byte {
	dst = pgio.AppendUint32(dst, uint32(12+len(m.Key)))
	dst = pgio.AppendUint32(dst, CancelRequestCode)
	dst = pgio.AppendUint32(dst, m.PID)
	return append(dst, m.Key...)
}

// BackendKeyData is what a CancelRequest for the session must bring.
//
//	Byte1('K') | Int32 length | Int32 PID | Byte[n] Key
type BackendKeyData struct {
	PID uint32
	Key []byte // 4 bytes; 4 to 256 from protocol 3.2 on
}

// Decode reads a frame's body. Key aliases src.
func (m *BackendKeyData) Decode(src []byte) error {
	c := cursor{b: src}
	m.PID = c.u32()
	m.Key = c.rest()
	if c.err == nil && (len(m.Key) < 4 || len(m.Key) > 256) {
		c.fail(ErrInvalid)
	}
	return c.done("BackendKeyData")
}
