package protocol

import (
	"errors"
	"math"
	"testing"
)

// offsetOf returns where a MessageError lies, and fails the test for any other
// error or cause.
func offsetOf(t *testing.T, err, cause error) int {
	t.Helper()
	var e *MessageError
	if !errors.As(err, &e) || !errors.Is(err, cause) {
		t.Fatalf("error = %v, want a MessageError of %v", err, cause)
	}
	return e.Offset
}

// A count read as a negative int, as an int of 32 bits would, passed the bound
// and made the decoder panic.
func TestCountIsBoundedByInput(t *testing.T) {
	for _, tt := range []struct {
		in   []byte
		size int
		want int
		err  error
	}{
		{[]byte{0, 0, 0, 0}, 1, 0, nil},
		{[]byte{0, 0, 0, 2, 7, 7}, 1, 2, nil},
		{[]byte{0, 0, 0, 3, 7, 7}, 1, 0, ErrTruncated},
		{[]byte{0, 0, 0, 2, 7, 7, 7}, 2, 0, ErrTruncated},
		{[]byte{0x7F, 0xFF, 0xFF, 0xFF, 7, 7}, 1, 0, ErrTruncated},
		{[]byte{0x80, 0, 0, 0, 7, 7}, 1, 0, ErrTruncated},
		{[]byte{0xFF, 0xFF, 0xFF, 0xFF, 7, 7}, 1, 0, ErrTruncated},
		{[]byte{0, 0, 0}, 1, 0, ErrTruncated},
	} {
		c := cursor{b: tt.in}
		if got := c.count(tt.size); got != tt.want || !errors.Is(c.err, tt.err) {
			t.Errorf("count(%d) of % x = %d, %v, want %d, %v", tt.size, tt.in, got, c.err, tt.want, tt.err)
		}
	}
}

func TestSizeNeverWraps(t *testing.T) {
	for _, tt := range []struct {
		in   []byte
		want int
	}{
		{[]byte{0, 0, 0, 5}, 5},
		{[]byte{0x7F, 0xFF, 0xFF, 0xFF}, math.MaxInt32},
		{[]byte{0x80, 0, 0, 0}, -1},
		{[]byte{0xFF, 0xFF, 0xFF, 0xFF}, -1},
	} {
		c := cursor{b: tt.in}
		if got := c.size(); got != tt.want {
			t.Errorf("size of % x = %d, want %d", tt.in, got, tt.want)
		}
	}
}

// The offset of an error was behind a refused field but in front of a missing
// one. It is where the field begins, also within a record.
func TestErrorOffsetIsWhereTheFieldBegins(t *testing.T) {
	c := cursor{b: []byte{0, 1, 2}}
	c.u16()
	c.flag()
	if got := offsetOf(t, c.done("test"), ErrInvalid); got != 2 {
		t.Errorf("offset of a refused flag = %d, want 2", got)
	}

	c = cursor{b: []byte{0, 1, 2}}
	c.u16()
	c.u16()
	if got := offsetOf(t, c.done("test"), ErrTruncated); got != 2 {
		t.Errorf("offset of a missing field = %d, want 2", got)
	}

	c = cursor{b: []byte{0, 1, 2}}
	c.u16()
	if got := offsetOf(t, c.done("test"), ErrTrailing); got != 2 {
		t.Errorf("offset of trailing bytes = %d, want 2", got)
	}

	c = cursor{b: []byte{9, 0, 0, 0, 2, 1, 3, 9}}
	c.u8()
	s := c.sub()
	s.flag()
	s.flag()
	c.join(&s)
	if got := offsetOf(t, c.done("test"), ErrInvalid); got != 6 {
		t.Errorf("offset of a refused flag in a record = %d, want 6", got)
	}

	c = cursor{b: []byte{0, 0, 0, 9, 1}}
	s = c.sub()
	s.flag()
	c.join(&s)
	if got := offsetOf(t, c.done("test"), ErrTruncated); got != 4 {
		t.Errorf("offset of a record that is too long = %d, want 4", got)
	}
}

func TestCursorIsSticky(t *testing.T) {
	c := cursor{b: []byte{1, 2, 3}}
	c.u64()
	if a, b, s := c.u8(), c.u16(), c.text(); a != 0 || b != 0 || s != "" {
		t.Errorf("reads after an error = %d, %d, %q, want zeros", a, b, s)
	}
	if c.left() != 0 || c.rest() != nil || c.cstring() != nil {
		t.Error("bytes are left after an error")
	}
	if got := offsetOf(t, c.done("test"), ErrTruncated); got != 0 {
		t.Errorf("offset = %d, want that of the first error, 0", got)
	}
}

// What a cursor hands out cannot be appended to over what follows it.
func TestCursorSlicesAreCapped(t *testing.T) {
	src := []byte{1, 2, 3, 4}
	c := cursor{b: src}
	_ = append(c.bytes(2), 9)
	if src[2] != 3 {
		t.Errorf("append to a field changed the next one: % x", src)
	}
}

func TestCString(t *testing.T) {
	c := cursor{b: []byte("ab\x00\x00c")}
	if got := string(c.cstring()); got != "ab" {
		t.Errorf("cstring = %q, want %q", got, "ab")
	}
	if got := c.cstring(); string(got) != "" || c.err != nil {
		t.Errorf("cstring = %q, %v, want an empty one", got, c.err)
	}
	c.cstring()
	if got := offsetOf(t, c.done("test"), ErrTruncated); got != 4 {
		t.Errorf("offset of a text without end = %d, want 4", got)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x01x\x01"), []byte{5, 3, 1})
	f.Fuzz(func(t *testing.T, src, ops []byte) {
		c := cursor{b: src}
		for _, op := range ops {
			switch op % 8 {
			case 0:
				c.u8()
			case 1:
				c.u64()
			case 2:
				c.flag()
			case 3:
				c.text()
			case 4:
				c.cstring()
			case 5:
				if n := c.count(1 + int(op>>4)); n*(1+int(op>>4)) > len(src) {
					t.Fatalf("count = %d for %d bytes", n, len(src))
				}
			case 6:
				s := c.sub()
				s.u16()
				c.join(&s)
			case 7:
				c.bytes(c.size())
			}
			if c.off < 0 || c.off > len(src) || c.at < 0 || c.at > len(src) {
				t.Fatalf("cursor at %d, field at %d, of %d bytes", c.off, c.at, len(src))
			}
		}
		c.rest()
		if err := c.done("test"); (err != nil) != (c.err != nil) {
			t.Fatalf("done = %v after %v", err, c.err)
		}
	})
}
