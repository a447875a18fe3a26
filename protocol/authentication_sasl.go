package protocol

import "github.com/jackc/pgio"

// SCRAMPlus is SCRAM-SHA-256 with the channel binding of the TLS session it
// runs in.
const SCRAMPlus = "SCRAM-SHA-256-PLUS"

// AppendAuthenticationSASL appends the frame that offers ways to authenticate,
// best first.
//
//	Byte1('R') | Int32 length | Int32(10) | n x String mechanism | Byte1(0)
func AppendAuthenticationSASL(dst []byte, mechanisms []string) []byte {
	return appendFrame(dst, FrameAuthentication, func(dst []byte) []byte {
		dst = pgio.AppendUint32(dst, AuthSASL)
		for _, name := range mechanisms {
			dst = append(append(dst, name...), 0)
		}
		return append(dst, 0)
	})
}

// BindsChannel reports whether a SCRAM client binds its login to the TLS
// session it sees, or remarks that it would have: gs2-cbind-flag "p" or "y"
// (RFC 5802). A server that ends another TLS session refuses both
// (read_client_first_message, auth-scram.c).
func (m *SASLInitialResponse) BindsChannel() bool {
	return len(m.Data) > 0 && (m.Data[0] == 'p' || m.Data[0] == 'y')
}
