package protocol

import "github.com/jackc/pgio"

// authSASL is the code of AuthenticationSASL among the Authentication messages
// (AUTH_REQ_SASL, protocol.h).
const authSASL = 10

// SCRAM-SHA-256 with the channel binding of the TLS session it runs in.
const SCRAMPlus = "SCRAM-SHA-256-PLUS"

// AuthenticationSASL offers ways to authenticate, best first.
//
//	Byte1('R') | Int32 length | Int32(10) | n x String mechanism | Byte1(0)
type AuthenticationSASL struct{ Mechanisms []string }

// Decode reads a frame's body. Another Authentication message is ErrType.
func (m *AuthenticationSASL) Decode(src []byte) error {
	c := cursor{b: src}
	if c.u32() != authSASL {
		c.fail(ErrType)
	}
	m.Mechanisms = nil
	for c.err == nil {
		name := c.cstring()
		if len(name) == 0 {
			break
		}
		m.Mechanisms = append(m.Mechanisms, string(name))
	}
	return c.done("AuthenticationSASL")
}

// Append appends the whole frame to dst.
func (m *AuthenticationSASL) Append(dst []byte) []byte {
	return appendFrame(dst, FrameAuthentication, func(dst []byte) []byte {
		dst = pgio.AppendUint32(dst, authSASL)
		for _, name := range m.Mechanisms {
			dst = append(append(dst, name...), 0)
		}
		return append(dst, 0)
	})
}

// Without returns the offer without a mechanism, and whether it was there.
func (m *AuthenticationSASL) Without(mechanism string) (rest AuthenticationSASL, found bool) {
	for _, name := range m.Mechanisms {
		if name == mechanism {
			found = true
			continue
		}
		rest.Mechanisms = append(rest.Mechanisms, name)
	}
	return rest, found
}

// SASLInitialResponse chooses a mechanism and says the first word in it.
//
//	Byte1('p') | Int32 length | String Mechanism | Int32 n | Byte[n] Data
type SASLInitialResponse struct {
	Mechanism string
	Data      []byte // none where n is -1
}

// Decode reads a frame's body. Data aliases src.
func (m *SASLInitialResponse) Decode(src []byte) error {
	c := cursor{b: src}
	m.Mechanism = string(c.cstring())
	m.Data = nil
	if n := int32(c.u32()); c.err == nil && n != -1 {
		m.Data = c.bytes(int(n))
	}
	return c.done("SASLInitialResponse")
}

// BindsChannel reports whether a SCRAM client binds its login to the TLS
// session it sees, or remarks that it would have: gs2-cbind-flag "p" or "y"
// (RFC 5802). A server that ends another TLS session refuses both
// (read_client_first_message, auth-scram.c).
func (m *SASLInitialResponse) BindsChannel() bool {
	return len(m.Data) > 0 && (m.Data[0] == 'p' || m.Data[0] == 'y')
}
