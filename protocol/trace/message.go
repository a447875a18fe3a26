package trace

import (
	"strconv"

	"github.com/slotferry/slotferry/protocol"
)

// kind is how a Message describes itself.
type kind uint8

const (
	kindFrame   kind = iota // of the frame's type
	kindStartup             // a packet without type byte
	kindAnswer              // one byte, to SSLRequest or GSSENCRequest
	kindOpaque              // encrypted bytes
	kindXLogData
	kindLogical // an XLogData with a logical decoding message
	kindSlotMessage
	kindCopy // a message inside CopyData, by its type
	kindBackup
	kindBreak
	kindGap
	kindUnfinished
)

// Message is one message of a connection, or a run of bytes that are none. It is
// valid until the function it was given to returns.
type Message struct {
	Connection uint64
	Direction  Direction
	Time       int64 // when its last byte was captured, microseconds since 2000-01-01 UTC
	Offset     int64 // of its first byte in the input
	Position   int64 // of its first byte in the stream of its direction
	Length     int64 // bytes of it in the stream
	Missing    int64 // those of them that the input does not have

	Name   string // PostgreSQL's own: "XLogData", "ReadyForQuery", ...
	Detail string // what is in an XLogData of a logical stream: "Insert"
	Note   string // what is wrong with it, or why it was not read

	// Fault is set where the bytes are not what they should be.
	Fault bool

	// Start and End are the WAL it is about; 0/0 when it is about none.
	Start, End protocol.LSN

	// At is set on the message that has the byte Config.At.
	At bool

	kind  kind
	frame byte   // type of the frame, or of the message inside CopyData
	body  []byte // behind the header; not all of it when the message is large
	s     *Session

	broken *breakage
	placed bool // Position and Offset are set
}

// AppendText appends the message as one line, without its line feed.
func (m *Message) AppendText(dst []byte) []byte {
	dst = appendTime(dst, m.Time)
	dst = append(dst, '\t')
	dst = strconv.AppendUint(dst, m.Connection, 10)
	dst = append(dst, '\t', m.Direction.Letter(), '\t')
	dst = strconv.AppendInt(dst, m.Offset, 10)
	dst = append(dst, '\t')
	dst = strconv.AppendInt(dst, m.Length, 10)
	dst = append(dst, '\t')
	dst = append(dst, m.Name...)
	dst = append(dst, '\t')
	e := &m.s.text
	e.b, e.between = dst, false
	m.describe(e)
	dst, e.b = e.b, nil
	return dst
}

// AppendJSON appends the message as one JSON object, without a line feed. Its
// form is a contract, which docs/debug.md keeps.
func (m *Message) AppendJSON(dst []byte) []byte {
	e := &m.s.json
	e.b, e.between, e.json = append(dst, '{'), false, true
	e.num("connection", m.Connection)
	e.str("direction", m.Direction.String())
	e.micros("time", m.Time)
	e.int("offset", m.Offset)
	e.int("position", m.Position)
	e.int("length", m.Length)
	e.str("message", m.Name)
	if m.Fault {
		e.flag("fault", true)
	}
	e.object("fields")
	m.describe(e)
	e.end('}')
	e.end('}')
	dst, e.b = e.b, nil
	return dst
}

// describe writes every field.
func (m *Message) describe(e *encoder) {
	switch m.kind {
	case kindFrame:
		m.describeFrame(e)
	case kindStartup:
		m.describeStartup(e)
	case kindAnswer:
		e.str("answer", string(m.body))
	case kindXLogData:
		m.describeXLogData(e)
	case kindLogical:
		m.describeLogical(e)
	case kindSlotMessage:
		m.describeSlotMessage(e)
	case kindCopy:
		m.describeCopy(e)
	case kindBackup:
		m.describeBackup(e)
	case kindBreak:
		m.broken.describe(e)
	case kindUnfinished:
		e.hex("data", m.body, maxHex)
	}
	if m.Missing > 0 {
		e.int("missing", m.Missing)
	}
	if m.Note != "" {
		e.str("note", m.Note)
	}
}

// maxHex is how many bytes of something that is not understood are shown.
const maxHex = 64

// undecoded describes a message that is not what it should be.
func (m *Message) undecoded(e *encoder, err error) {
	if m.Missing == 0 || err == nil {
		m.note(err)
	}
	e.hex("data", m.body, maxHex)
}

func (m *Message) note(err error) {
	if err != nil && m.Note == "" {
		m.Note = err.Error()
	}
}

// Body returns what is behind the header of the frame, or of the message inside
// CopyData. It is not all of it when the message is large.
func (m *Message) Body() []byte { return m.body }
