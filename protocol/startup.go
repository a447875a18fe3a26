package protocol

import (
	"strings"

	"github.com/jackc/pgio"
)

// OptInParameter is the startup parameter by which a helper asks for slot
// messages, with the value OptInValue. A relay takes it out of the packet. A
// PostgreSQL server that gets it answers NegotiateProtocolVersion.
const (
	OptInParameter = "_pq_.slotferry"
	OptInValue     = "1"
)

// MaxStartupPacket is the size cap of a startup packet in bytes, length field
// included: MAX_STARTUP_PACKET_LENGTH (pqcomm.h) does not count those four.
const MaxStartupPacket = 10000 + 4

// Codes in the place of a protocol version.
const (
	CancelRequestCode = 1234<<16 | 5678
	SSLRequestCode    = 1234<<16 | 5679
	GSSENCRequestCode = 1234<<16 | 5680
)

// ProtocolVersion3 is protocol version 3.0, major in the upper half.
const ProtocolVersion3 = 3 << 16

// StartupCode returns what a whole startup packet is: one of the codes above,
// or a protocol version.
func StartupCode(packet []byte) (uint32, error) {
	c := cursor{b: packet}
	length := c.u32()
	code := c.u32()
	if c.err == nil && int(length) != len(packet) {
		c.fail(ErrFrameLength)
	}
	c.rest()
	return code, c.done("startup packet")
}

// AppendStartupRequest appends a packet that is a length and a code, nothing
// else: SSLRequest or GSSENCRequest.
func AppendStartupRequest(dst []byte, code uint32) []byte {
	return pgio.AppendUint32(pgio.AppendUint32(dst, 8), code)
}

// StartupMessage opens a session.
//
//	Int32 length | Int32 Version | n x (String name | String value) | Byte1(0)
type StartupMessage struct {
	Version    uint32
	Parameters []StartupParameter // in the order of the packet, repeated ones included
}

// StartupParameter is one name and its value.
type StartupParameter struct{ Name, Value string }

// Decode reads a whole packet, length field included. A packet it accepts
// comes out of Append again byte for byte.
func (m *StartupMessage) Decode(packet []byte) error {
	c := cursor{b: packet}
	if length := c.u32(); c.err == nil && int64(length) != int64(len(packet)) {
		c.fail(ErrFrameLength)
	}
	m.Version = c.u32()
	if c.err == nil && m.Version>>16 != 3 {
		c.fail(ErrVersion)
	}
	m.Parameters = nil
	for c.err == nil {
		name := c.cstring()
		if len(name) == 0 {
			break
		}
		m.Parameters = append(m.Parameters, StartupParameter{string(name), string(c.cstring())})
	}
	return c.done("StartupMessage")
}

// Append appends the whole packet, with the length put right, to dst.
func (m *StartupMessage) Append(dst []byte) []byte {
	at := len(dst)
	dst = pgio.AppendUint32(pgio.AppendUint32(dst, 0), m.Version)
	for _, p := range m.Parameters {
		dst = append(append(dst, p.Name...), 0)
		dst = append(append(dst, p.Value...), 0)
	}
	dst = append(dst, 0)
	pgio.SetInt32(dst[at:], int32(len(dst)-at))
	return dst
}

// Get returns the value of a parameter: the last one where it is repeated, as
// ProcessStartupPacket (backend_startup.c) takes it.
func (m *StartupMessage) Get(name string) (value string, ok bool) {
	for _, p := range m.Parameters {
		if p.Name == name {
			value, ok = p.Value, true
		}
	}
	return value, ok
}

// Remove takes every parameter of that name out and keeps the order of the
// others. It returns the last value.
func (m *StartupMessage) Remove(name string) (value string, ok bool) {
	value, ok = m.Get(name)
	if !ok {
		return "", false
	}
	kept := make([]StartupParameter, 0, len(m.Parameters))
	for _, p := range m.Parameters {
		if p.Name != name {
			kept = append(kept, p)
		}
	}
	m.Parameters = kept
	return value, true
}

// ReplicationMode is what the startup parameter "replication" asks for.
type ReplicationMode uint8

// The values of ReplicationMode.
const (
	ReplicationNone     ReplicationMode = iota // an ordinary session
	ReplicationPhysical                        // replication=true and its other spellings
	ReplicationDatabase                        // replication=database
)

// Replication reads the parameter "replication" as ProcessStartupPacket does.
// A value the server will refuse is ReplicationNone.
func (m *StartupMessage) Replication() ReplicationMode {
	value, ok := m.Get("replication")
	switch {
	case !ok:
		return ReplicationNone
	case value == "database":
		return ReplicationDatabase
	case isTrue(value):
		return ReplicationPhysical
	default:
		return ReplicationNone
	}
}

// isTrue accepts what parse_bool_with_len (bool.c) accepts as true.
func isTrue(s string) bool {
	s = strings.ToLower(s)
	switch {
	case s == "":
		return false
	case s == "1", s == "on":
		return true
	default:
		return strings.HasPrefix("true", s) || strings.HasPrefix("yes", s)
	}
}
