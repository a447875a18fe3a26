package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// maxFrame bounds a frame from the downstream: logins, commands and feedback are
// small.
const maxFrame = 1 << 20

// framer finds the messages that a downstream sends.
type framer struct {
	b     []byte
	used  int
	typed bool // the StartupMessage came
	err   error
}

func (f *framer) add(b []byte) {
	f.b = append(f.b[:copy(f.b, f.b[f.used:])], b...)
	f.used = 0
}

// next returns one message, nil when none is whole. It is valid until the next
// add.
func (f *framer) next() []byte {
	b := f.b[f.used:]
	size, least := 0, protocol.FrameHeaderLen
	switch {
	case f.err != nil:
		return nil
	case f.typed && len(b) >= protocol.FrameHeaderLen:
		size = 1 + int(binary.BigEndian.Uint32(b[1:]))
	case !f.typed && len(b) >= 8:
		size, least = int(binary.BigEndian.Uint32(b)), 8 // kind reads the code behind the length
	default:
		return nil
	}
	if size < least || size > maxFrame {
		f.err = fmt.Errorf("downstream sent a message of %d bytes", size)
		return nil
	}
	if len(b) < size {
		return nil
	}
	f.used += size
	if !f.typed {
		f.typed = binary.BigEndian.Uint32(b[4:])>>16 == 3
	}
	return b[:size]
}

// turn reports whether the upstream waits for a message: feedback, and settings
// of a client, come when they come.
func turn(frame []byte) bool { return frame[0] != protocol.FrameCopyData }

// kind names a message.
func kind(frame []byte) string {
	if frame[0] == 0 && len(frame) >= 8 {
		switch binary.BigEndian.Uint32(frame[4:]) {
		case protocol.SSLRequestCode:
			return "SSLRequest"
		case protocol.GSSENCRequestCode:
			return "GSSENCRequest"
		case protocol.CancelRequestCode:
			return "CancelRequest"
		}
		return "StartupMessage"
	}
	if name := protocol.UpstreamFrameName(frame[0]); name != "" {
		return name
	}
	return "a message of type " + string(rune(frame[0]))
}

// text returns the text of a Query, without the passwords in it.
func text(frame []byte) []byte {
	return trace.MaskQuery(bytes.TrimRight(frame[protocol.FrameHeaderLen:], "\x00"))
}
