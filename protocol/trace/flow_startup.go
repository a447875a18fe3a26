package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/slotferry/slotferry/protocol"
)

// startup takes a packet without type byte.
func (f *flow) startup(b []byte, used int) (n int, wait bool) {
	rest := b[used:]
	if f.s.conv.encrypted(rest) {
		f.s.conv.Phase = PhaseOpaque
		return 0, false
	}
	if len(rest) < 8 {
		return 0, true
	}
	size := binary.BigEndian.Uint32(rest)
	if size < 8 || size > protocol.MaxStartupPacket+64 {
		return f.broken(b, used, fmt.Sprintf("a startup packet cannot be %d bytes long", size), 0), false
	}
	if len(rest) < int(size) {
		return 0, true
	}
	code := binary.BigEndian.Uint32(rest[4:])
	m := Message{kind: kindStartup, Name: startupName(code), Length: int64(size), body: rest[:size]}
	f.deliver(&m)
	f.s.conv.StartupPacket(code, rest[:size])
	return int(size), false
}

func startupName(code uint32) string {
	switch code {
	case protocol.SSLRequestCode:
		return "SSLRequest"
	case protocol.GSSENCRequestCode:
		return "GSSENCRequest"
	case protocol.CancelRequestCode:
		return "CancelRequest"
	default:
		return "StartupMessage"
	}
}

// answer takes the one byte that answers SSLRequest or GSSENCRequest.
func (f *flow) answer(rest []byte) int {
	f.deliver(&Message{kind: kindAnswer, Name: "EncryptionResponse", Length: 1, body: rest[:1]})
	f.s.conv.Answered(rest[0])
	return 1
}
