package protocol

import "github.com/jackc/pgio"

// NegotiateProtocolVersion answers a startup packet that asks for a newer
// protocol or for "_pq_." parameters the server does not know.
//
//	Byte1('v') | Int32 length | Int32 Version | Int32 n | n x String parameter
type NegotiateProtocolVersion struct {
	Version    uint32 // the newest the server speaks: PostgreSQL sends major and minor, poolers the minor alone
	Parameters []string
}

// Decode reads a frame's body.
func (m *NegotiateProtocolVersion) Decode(src []byte) error {
	c := cursor{b: src}
	m.Version = c.u32()
	m.Parameters = nil
	for range c.count(1) {
		m.Parameters = append(m.Parameters, string(c.cstring()))
	}
	return c.done("NegotiateProtocolVersion")
}

// Append appends the whole frame to dst.
func (m *NegotiateProtocolVersion) Append(dst []byte) []byte {
	return appendFrame(dst, FrameNegotiate, func(dst []byte) []byte {
		dst = pgio.AppendUint32(pgio.AppendUint32(dst, m.Version), uint32(len(m.Parameters)))
		for _, p := range m.Parameters {
			dst = append(append(dst, p...), 0)
		}
		return dst
	})
}

// Without returns the answer that a client would have got that had not sent
// the parameter name. found says whether name was there, and needed whether
// there is anything left to say to a client that asked for version asked.
func (m *NegotiateProtocolVersion) Without(name string, asked uint32) (
	rest NegotiateProtocolVersion, found, needed bool,
) {
	rest.Version = m.Version
	for _, p := range m.Parameters {
		if p == name {
			found = true
			continue
		}
		rest.Parameters = append(rest.Parameters, p)
	}
	same := m.Version == asked || m.Version == asked&0xFFFF
	return rest, found, len(rest.Parameters) > 0 || !same
}
