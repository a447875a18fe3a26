package replay

import (
	"bytes"
	"testing"
)

// A message too short to have a code in it ended the process.
func TestShortMessages(t *testing.T) {
	for _, b := range []string{
		"\x00\x00\x00\x05\x00\x00\x00\x00", "\x00\x00\x00\x07\x00\x03\x00\x00", "\x00\x00\x00\x00\x00\x03\x00\x00",
	} {
		var f framer
		if f.add([]byte(b)); f.next() != nil || f.err == nil {
			t.Errorf("%q is a startup packet", b)
		}
	}
	f := framer{typed: true}
	f.add([]byte("\x00\x00\x00\x00\x04"))
	if got := kind(f.next()); got != "a message of type \x00" {
		t.Errorf("kind is %q", got)
	}
}

// FuzzFramer checks that whatever a downstream sends is cut into messages that are
// what was sent, each of which has a name.
func FuzzFramer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x08\x04\xd2\x16\x2f\x00\x00\x00\x09\x00\x03\x00\x00\x00Q\x00\x00\x00\x06A\x00X\x00\x00\x00\x04"), uint8(3), false)
	f.Add([]byte("\x00\x00\x00\x05\x00\x00\x00\x00"), uint8(8), false)
	f.Add([]byte("\x00\x00\x00\x00\x04"), uint8(1), true)
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8, typed bool) {
		fr := framer{typed: typed}
		var got []byte
		for rest := sent; len(rest) > 0 && fr.err == nil; {
			n := min(len(rest), 1+int(piece))
			fr.add(rest[:n])
			rest = rest[n:]
			for frame := fr.next(); frame != nil; frame = fr.next() {
				if kind(frame) == "" {
					t.Fatalf("%q has no name", frame)
				}
				if turn(frame) && frame[0] == 'Q' {
					text(frame)
				}
				got = append(got, frame...)
			}
		}
		if !bytes.HasPrefix(sent, got) {
			t.Fatalf("%q was sent, messages are %q", sent, got)
		}
	})
}
