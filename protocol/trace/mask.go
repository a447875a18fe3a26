package trace

import (
	"bytes"

	"github.com/slotferry/slotferry/protocol"
)

// mask is what stands for each byte of a secret: lengths stay as they are.
const mask = '*'

func maskAll(b []byte) {
	for i := range b {
		b[i] = mask
	}
}

// maskSCRAM masks what a password could be guessed by in a message of SCRAM
// (RFC 5802): the client's proof and the server's signature.
func maskSCRAM(b []byte) {
	for at := 0; at < len(b); {
		end := at + bytes.IndexByte(b[at:], ',')
		if end < at {
			end = len(b)
		}
		attribute := b[at:end]
		if len(attribute) > 2 && attribute[1] == '=' && (attribute[0] == 'p' || attribute[0] == 'v') {
			maskAll(attribute[2:])
		}
		at = end + 1
	}
}

// maskSASL masks what is secret in the data of a SASLInitialResponse. SCRAM's has
// no secret; OAUTHBEARER's is one, and others are taken to be.
func maskSASL(mechanism string, data []byte) {
	if mechanism != "SCRAM-SHA-256" && mechanism != "SCRAM-SHA-256-PLUS" {
		maskAll(data)
	}
}

// maskQuery masks passwords in a command: the literal behind the word PASSWORD,
// as in ALTER ROLE, and the passwords of a conninfo, as in CREATE SUBSCRIPTION.
func maskQuery(q []byte) {
	const word = "password"
	for at := 0; at+len(word) <= len(q); at++ {
		if bytes.EqualFold(q[at:at+len(word)], []byte(word)) {
			at += len(word)
			maskValue(bytes.TrimLeft(q[at:], " \t\r\n="))
		}
	}
	for at := 0; at < len(q); {
		_, rest, found := bytes.Cut(q[at:], []byte("://"))
		if !found {
			return
		}
		at = len(q) - len(rest)
		if n := bytes.IndexAny(rest, "@' "); n >= 0 && rest[n] == '@' {
			if _, secret, found := bytes.Cut(rest[:n], []byte{':'}); found {
				maskAll(secret)
			}
		}
	}
}

// maskValue masks the value at the front of q: a literal, one within a literal
// (with its quotes doubled), or a word.
func maskValue(q []byte) {
	if len(q) > 1 && (q[0] == 'E' || q[0] == 'e') && q[1] == '\'' {
		q = q[1:]
	}
	switch {
	case len(q) > 1 && q[0] == '\'' && q[1] == '\'':
		secret, _, _ := bytes.Cut(q[2:], []byte("''"))
		maskAll(secret)
	case len(q) > 0 && q[0] == '\'':
		q = q[1:]
		for len(q) > 0 && (q[0] != '\'' || len(q) > 1 && q[1] == '\'') {
			n := 1
			if q[0] == '\'' || q[0] == '\\' {
				n = min(2, len(q))
			}
			maskAll(q[:n])
			q = q[n:]
		}
	case len(q) > 0 && q[0] == '$':
		maskAll(bytes.TrimSuffix(q, []byte{0}))
	default:
		if n := bytes.IndexAny(q, " ';,&\x00"); n >= 0 {
			q = q[:n]
		}
		maskAll(q)
	}
}

// maskFrame masks what is secret in a whole frame, in place.
func (c *Conversation) maskFrame(dir Direction, frame []byte) {
	body := frame[protocol.FrameHeaderLen:]
	switch {
	case dir == Upstream && (frame[0] == protocol.FrameQuery || frame[0] == 'P'):
		maskQuery(body)
	case dir == Upstream && frame[0] == 'p':
		c.maskResponse(body)
	case dir == Downstream && frame[0] == protocol.FrameAuthentication && len(body) > 4:
		maskSCRAM(body[4:])
	case dir == Downstream && frame[0] == protocol.FrameBackendKeyData && len(body) > 4:
		maskAll(body[4:])
	}
}

func (c *Conversation) maskResponse(body []byte) {
	switch c.responseName() {
	case "SASLInitialResponse":
		var r protocol.SASLInitialResponse
		if r.Decode(body) != nil {
			maskAll(body)
			return
		}
		maskSASL(r.Mechanism, r.Data) // it aliases body
	case "SASLResponse":
		maskSCRAM(body)
	default:
		maskAll(bytes.TrimSuffix(body, []byte{0}))
	}
}

// MaskQuery returns a command without the passwords in it.
func MaskQuery(query []byte) []byte {
	query = bytes.Clone(query)
	maskQuery(query)
	return query
}
