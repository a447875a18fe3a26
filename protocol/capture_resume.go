package protocol

import "github.com/jackc/pgio"

// CaptureResume is where a connection stood when a capture went on in another
// file, so that each file can be read by itself.
//
//	Byte1 Phase | Byte1 Copy | Int32 DownstreamLeft | Int32 UpstreamLeft | Int32 length | Byte[length] Command
type CaptureResume struct {
	Phase          byte   // 0 startup, 1 login, 2 session, 3 not readable (encrypted)
	Copy           byte   // 0 none, 1 physical, 2 logical, 3 slot state, 4 base backup, 5 other, 6 unknown
	DownstreamLeft uint32 // bytes of the frame under way that are still to come
	UpstreamLeft   uint32
	Command        string // the text of the Query that is being answered
}

// Append appends the payload of a CaptureResumed record.
func (m *CaptureResume) Append(dst []byte) []byte {
	dst = append(dst, m.Phase, m.Copy)
	dst = pgio.AppendUint32(dst, m.DownstreamLeft)
	dst = pgio.AppendUint32(dst, m.UpstreamLeft)
	dst = pgio.AppendUint32(dst, uint32(len(m.Command)))
	return append(dst, m.Command...)
}

// Decode reads the payload of a CaptureResumed record.
func (m *CaptureResume) Decode(src []byte) error {
	c := cursor{b: src}
	m.Phase, m.Copy = c.u8(), c.u8()
	m.DownstreamLeft, m.UpstreamLeft = c.u32(), c.u32()
	m.Command = string(c.bytes(c.size()))
	return c.done("capture resume")
}
