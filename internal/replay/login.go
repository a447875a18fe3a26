package replay

import (
	"github.com/jackc/pgio"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// loginReader finds what of a recorded login another downstream can be told: all
// but the authentication.
type loginReader struct {
	session   *trace.Session
	fed       [2]int64
	frames    []byte
	over      bool
	end       int64 // of the login, in the stream from the upstream
	encrypted bool
}

func newLoginReader() *loginReader {
	l := &loginReader{}
	l.session = trace.NewSession(trace.Config{ShowSecrets: true, NoRecords: true, At: -1}, 1, l.message)
	return l
}

// read looks at bytes of a direction, and returns how many of them belong to the
// login.
func (l *loginReader) read(upstream bool, b []byte) int {
	if l.over {
		return 0
	}
	dir := trace.Downstream
	if upstream {
		dir = trace.Upstream
	}
	before := l.fed[dir]
	l.session.Feed(dir, 0, before, b)
	l.fed[dir] += int64(len(b))
	if !l.over || upstream {
		return len(b)
	}
	return int(l.end - before)
}

// message keeps a frame of the login.
func (l *loginReader) message(m *trace.Message) {
	kind := map[string]byte{"ParameterStatus": 'S', "BackendKeyData": protocol.FrameBackendKeyData,
		"ReadyForQuery": protocol.FrameReadyForQuery, "ErrorResponse": protocol.FrameErrorResponse}[m.Name]
	switch {
	case m.Name == "Encrypted":
		l.encrypted = true
	case l.over || m.Direction == trace.Upstream || kind == 0:
	default:
		l.frames = pgio.AppendUint32(append(l.frames, kind), uint32(len(m.Body())+4))
		l.frames = append(l.frames, m.Body()...)
		if m.Name == "ReadyForQuery" || m.Name == "ErrorResponse" {
			l.over, l.end = true, m.Position+m.Length
		}
	}
}
