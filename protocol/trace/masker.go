package trace

import (
	"encoding/binary"

	"github.com/slotferry/slotferry/protocol"
)

// maxHeld is how much of a frame that may have a secret is held back until it is
// whole. Larger ones are masked as a whole.
const maxHeld = 1 << 20

// Masker masks what is secret in the bytes of a connection as they pass: what a
// password could be, or be guessed by, and cancel keys. Lengths stay as they are,
// so that a capture of the result reads like the original. It holds a frame back
// until it is whole, but for CopyData, which passes as it comes.
type Masker struct {
	// ShowSecrets masks nothing.
	ShowSecrets bool

	conv  Conversation
	flows [2]maskFlow
	out   []byte
}

// maskFlow is one direction of a Masker.
type maskFlow struct {
	held []byte
	left int64 // bytes of the frame under way that pass
	hide bool  // masked
	raw  bool  // no frames any more
}

// Add takes bytes of one direction and returns those that may be written now,
// which can be more or less than b. They are valid until the next call.
func (m *Masker) Add(dir Direction, b []byte) []byte {
	f := &m.flows[dir]
	m.out = m.out[:0]
	if len(f.held) > 0 {
		b = append(f.held, b...)
	}
	for len(b) > 0 {
		n := m.next(dir, f, b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	f.held = append(f.held[:0], b...)
	if len(f.held) == 0 {
		f.held = nil
	}
	return m.out
}

// Flush returns what is held back when no more comes.
func (m *Masker) Flush(dir Direction) []byte {
	f := &m.flows[dir]
	if m.out = append(m.out[:0], f.held...); !m.ShowSecrets && len(m.out) > protocol.FrameHeaderLen {
		maskAll(m.out[protocol.FrameHeaderLen:])
	}
	f.held = nil
	return m.out
}

// Resumption returns where the connection stands behind the bytes that were
// returned.
func (m *Masker) Resumption() protocol.CaptureResume {
	r := m.conv.Resumption()
	r.DownstreamLeft, r.UpstreamLeft = uint32(m.flows[Downstream].left), uint32(m.flows[Upstream].left)
	if command := []byte(r.Command); !m.ShowSecrets {
		maskQuery(command)
		r.Command = string(command)
	}
	return r
}

// next passes the bytes at the front of b that go together, and returns how many
// they are; 0 when more are needed.
func (m *Masker) next(dir Direction, f *maskFlow, b []byte) int {
	switch {
	case f.raw || m.conv.Phase == PhaseOpaque && m.conv.opaque(dir, b):
		m.out = append(m.out, b...)
		return len(b)
	case f.left > 0:
		n := int(min(f.left, int64(len(b))))
		m.out = append(m.out, b[:n]...)
		if f.hide {
			maskAll(m.out[len(m.out)-n:])
		}
		f.left -= int64(n)
		return n
	case dir == Upstream && m.conv.Phase == PhaseStartup:
		return m.startup(f, b)
	case dir == Downstream && m.conv.Phase == PhaseStartup && m.conv.secured:
		m.conv.Phase = PhaseOpaque
		return m.next(dir, f, b)
	case dir == Downstream && m.conv.Phase == PhaseStartup && m.conv.Answers > 0 && b[0] != 'E':
		m.conv.Answered(b[0])
		m.out = append(m.out, b[0])
		return 1
	case len(b) < protocol.FrameHeaderLen:
		return 0
	}
	size, _, ok := frameSize(dir, b)
	switch {
	case !ok:
		f.raw = true
		return m.next(dir, f, b)
	case b[0] == protocol.FrameCopyData || size > maxHeld:
		if b[0] != protocol.FrameCopyData {
			m.conv.Frame(dir, b[0], nil)
		}
		f.hide = !m.ShowSecrets && dir == Upstream && b[0] != protocol.FrameCopyData
		f.left = size - protocol.FrameHeaderLen
		m.out = append(m.out, b[:protocol.FrameHeaderLen]...)
		return protocol.FrameHeaderLen
	case int64(len(b)) < size:
		return 0
	}
	m.out = append(m.out, b[:size]...)
	if !m.ShowSecrets {
		m.conv.maskFrame(dir, m.out[len(m.out)-int(size):])
	}
	m.conv.Frame(dir, b[0], b[protocol.FrameHeaderLen:size])
	return int(size)
}

// startup passes a packet without type byte.
func (m *Masker) startup(f *maskFlow, b []byte) int {
	if m.conv.encrypted(b) {
		m.conv.Phase = PhaseOpaque
		return m.next(Upstream, f, b)
	}
	if len(b) < 8 {
		return 0
	}
	size := binary.BigEndian.Uint32(b)
	if size < 8 || size > protocol.MaxStartupPacket+64 {
		f.raw = true
		return m.next(Upstream, f, b)
	}
	if len(b) < int(size) {
		return 0
	}
	code := binary.BigEndian.Uint32(b[4:])
	m.out = append(m.out, b[:size]...)
	if packet := m.out[len(m.out)-int(size):]; code == protocol.CancelRequestCode && !m.ShowSecrets && size > 12 {
		maskAll(packet[12:])
	}
	m.conv.StartupPacket(code, b[:size])
	return int(size)
}
