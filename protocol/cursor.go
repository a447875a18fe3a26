package protocol

import (
	"bytes"
	"encoding/binary"
	"math"
)

// cursor reads a message body front to back. It is sticky: after the first
// read past the end, or the first refused value, every read returns zero and
// done reports that first error. No decoder indexes a slice by hand.
type cursor struct {
	b   []byte
	off int
	at  int // where the field read last begins, and so where an error lies
	err error
}

// fail refuses the field that was read last.
func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// failAt refuses a field that lies further back.
func (c *cursor) failAt(off int, err error) {
	if c.err == nil {
		c.at, c.err = off, err
	}
}

// bytes returns the next n bytes, which alias the input.
func (c *cursor) bytes(n int) []byte {
	if c.err != nil {
		return nil
	}
	c.at = c.off
	if n < 0 || n > len(c.b)-c.off {
		c.fail(ErrTruncated)
		return nil
	}
	s := c.b[c.off : c.off+n : c.off+n]
	c.off += n
	return s
}

func (c *cursor) u8() byte {
	if s := c.bytes(1); s != nil {
		return s[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if s := c.bytes(2); s != nil {
		return binary.BigEndian.Uint16(s)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if s := c.bytes(4); s != nil {
		return binary.BigEndian.Uint32(s)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if s := c.bytes(8); s != nil {
		return binary.BigEndian.Uint64(s)
	}
	return 0
}

func (c *cursor) lsn() LSN      { return LSN(c.u64()) }
func (c *cursor) micros() int64 { return int64(c.u64()) }

// flag reads a Byte1 that must be 0 or 1.
func (c *cursor) flag() bool {
	switch c.u8() {
	case 0:
		return false
	case 1:
		return true
	default:
		c.fail(ErrInvalid)
		return false
	}
}

// opening reads what every slot message and helper report begins with: the
// magic and the Int16 version. Another version is ErrVersion whatever follows,
// because the rest may be laid out differently there.
func (c *cursor) opening() (version uint16) {
	if string(c.bytes(len(SlotMagic))) != SlotMagic {
		c.fail(ErrMagic)
	}
	version = c.u16()
	if version != SlotMessageVersion {
		c.fail(ErrVersion)
	}
	return version
}

// text reads an Int16 length and that many bytes.
func (c *cursor) text() string { return string(c.bytes(int(c.u16()))) }

// cstring reads up to and including a zero byte, and returns what is before.
func (c *cursor) cstring() []byte {
	if c.err != nil {
		return nil
	}
	n := bytes.IndexByte(c.b[c.off:], 0)
	if n < 0 {
		c.failAt(c.off, ErrTruncated)
		return nil
	}
	s := c.bytes(n)
	c.off++
	return s
}

// count reads an Int32 number of records that take at least size bytes each,
// so that a damaged count cannot make the caller allocate much.
func (c *cursor) count(size int) int {
	n := c.u32()
	if c.err == nil && uint64(n) > uint64((len(c.b)-c.off)/size) {
		c.fail(ErrTruncated)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// size reads an Int32 length. One that an int of 32 bits cannot hold becomes
// -1, which bytes refuses: no message is that long.
func (c *cursor) size() int {
	n := c.u32()
	if n > math.MaxInt32 {
		return -1
	}
	return int(n)
}

// sub reads an Int32 length and returns a cursor over that many bytes. The
// caller hands it back through join.
func (c *cursor) sub() cursor {
	b := c.bytes(c.size())
	return cursor{b: b, err: c.err}
}

// join takes over the error of a cursor from sub, with its place put right.
func (c *cursor) join(s *cursor) {
	if c.err == nil && s.err != nil {
		c.at = c.off - len(s.b) + s.at
		c.err = s.err
	}
}

// rest returns all that is left.
func (c *cursor) rest() []byte { return c.bytes(len(c.b) - c.off) }

func (c *cursor) left() int {
	if c.err != nil {
		return 0
	}
	return len(c.b) - c.off
}

// done returns the first error, and refuses bytes that no field took.
func (c *cursor) done(message string) error {
	if c.off != len(c.b) {
		c.failAt(c.off, ErrTrailing)
	}
	if c.err != nil {
		return &MessageError{Message: message, Offset: c.at, Err: c.err}
	}
	return nil
}
