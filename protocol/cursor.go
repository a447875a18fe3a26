package protocol

import "encoding/binary"

// cursor reads a message body front to back. It is sticky: after the first
// read past the end, or the first refused value, every read returns zero and
// done reports that first error. No decoder indexes a slice by hand.
type cursor struct {
	b   []byte
	off int
	err error
}

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// bytes returns the next n bytes, which alias the input.
func (c *cursor) bytes(n int) []byte {
	if c.err != nil {
		return nil
	}
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

// text reads an Int16 length and that many bytes.
func (c *cursor) text() string { return string(c.bytes(int(c.u16()))) }

// cstring reads up to and including a zero byte, and returns what is before.
func (c *cursor) cstring() []byte {
	if c.err != nil {
		return nil
	}
	for i, b := range c.b[c.off:] {
		if b == 0 {
			s := c.bytes(i)
			c.off++
			return s
		}
	}
	c.fail(ErrTruncated)
	return nil
}

// count reads an Int32 number of records that take at least size bytes each,
// so that a damaged count cannot make the caller allocate much.
func (c *cursor) count(size int) int {
	n := int(c.u32())
	if c.err == nil && n > (len(c.b)-c.off)/size {
		c.fail(ErrTruncated)
		return 0
	}
	if c.err != nil {
		return 0
	}
	return n
}

// sub reads an Int32 length and returns a cursor over that many bytes. The
// caller hands it back through join.
func (c *cursor) sub() cursor {
	n := int(c.u32())
	return cursor{b: c.bytes(n), err: c.err}
}

// join takes over the error of a cursor from sub, with its place put right.
func (c *cursor) join(s *cursor) {
	if c.err == nil && s.err != nil {
		c.off += s.off - len(s.b)
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
	if c.err == nil && c.off != len(c.b) {
		c.err = ErrTrailing
	}
	if c.err != nil {
		return &MessageError{Message: message, Offset: c.off, Err: c.err}
	}
	return nil
}
