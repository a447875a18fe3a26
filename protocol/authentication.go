package protocol

// The requests an Authentication message can make (protocol.h, AUTH_REQ_*).
const (
	AuthOK           = 0
	AuthCleartext    = 3
	AuthMD5          = 5
	AuthGSS          = 7
	AuthGSSContinue  = 8
	AuthSSPI         = 9
	AuthSASL         = 10
	AuthSASLContinue = 11
	AuthSASLFinal    = 12
)

var authNames = map[uint32]string{
	AuthOK: "AuthenticationOk", 2: "AuthenticationKerberosV5", AuthCleartext: "AuthenticationCleartextPassword",
	AuthMD5: "AuthenticationMD5Password", 6: "AuthenticationSCMCredential", AuthGSS: "AuthenticationGSS",
	AuthGSSContinue: "AuthenticationGSSContinue", AuthSSPI: "AuthenticationSSPI", AuthSASL: "AuthenticationSASL",
	AuthSASLContinue: "AuthenticationSASLContinue", AuthSASLFinal: "AuthenticationSASLFinal",
}

// Authentication is one step of the login that the upstream asks for.
//
//	Byte1('R') | Int32 length | Int32 Request | Byte[n] Data
type Authentication struct {
	Request    uint32
	Mechanisms []string // AuthSASL: n x String, then Byte1(0)
	Data       []byte   // of every other request: salt, token, SASL data
}

// Decode reads a frame's body. Data aliases src.
func (m *Authentication) Decode(src []byte) error {
	c := cursor{b: src}
	*m = Authentication{Request: c.u32()}
	switch m.Request {
	case AuthSASL:
		for c.err == nil {
			name := c.cstring()
			if len(name) == 0 {
				break
			}
			m.Mechanisms = append(m.Mechanisms, string(name))
		}
	case AuthMD5:
		m.Data = c.bytes(4)
	default:
		m.Data = c.rest()
	}
	return c.done("Authentication")
}

// Name returns what the protocol calls this request.
func (m *Authentication) Name() string {
	if name, ok := authNames[m.Request]; ok {
		return name
	}
	return "Authentication"
}

// SASLInitialResponse opens a SASL exchange.
//
//	Byte1('p') | Int32 length | String Mechanism | Int32 n, or -1 for none | Byte[n] Data
type SASLInitialResponse struct {
	Mechanism string
	Data      []byte
}

// Decode reads a frame's body. Data aliases src.
func (m *SASLInitialResponse) Decode(src []byte) error {
	c := cursor{b: src}
	m.Mechanism = string(c.cstring())
	m.Data = nil
	if n := c.u32(); n != noValue {
		m.Data = c.bytes(int(int32(n)))
	}
	return c.done("SASLInitialResponse")
}
