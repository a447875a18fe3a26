package relay

import (
	"bytes"
	"errors"
)

var errTooMuchSaid = errors.New("too much data behind an unfinished startup packet")

// readSlowly is read with patience, for peers that nobody knows yet: while nothing
// comes, the bytes of an unfinished packet take the memory they need and not a
// pump's buffer.
func (w *wire) readSlowly(in *inbox) error {
	if in.n == 0 {
		return w.read(in, true)
	}
	if err := w.read(in, false); !errors.Is(err, errNoBytes) {
		return err
	}
	held := bytes.Clone(in.bytes())
	in.release()
	err := w.read(in, true)
	if !in.prepend(held) {
		return errTooMuchSaid
	}
	return err
}

// prepend puts bytes in front, if there is room for them.
func (in *inbox) prepend(b []byte) bool {
	if len(b)+in.n > bufferSize {
		return false
	}
	in.room()
	copy(in.buf[len(b):], in.buf[:in.n])
	in.n += copy(in.buf[:], b)
	return true
}
