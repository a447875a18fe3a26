package trace

import (
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/wal"
)

// Config says what a Session is to show.
type Config struct {
	ShowSecrets bool  // passwords, SASL data and keys, where the input has them
	NoRecords   bool  // do not list the WAL records of an XLogData
	At          int64 // the offset in the input to look for; -1 for none
}

// Session follows one connection. It is not safe for concurrent use.
type Session struct {
	cfg  Config
	id   uint64
	emit func(*Message)

	conv  Conversation
	flows [2]flow

	// Of the stream under way.
	walker    wal.Walker
	records   []wal.Record
	walEnd    protocol.LSN // of the last physical XLogData
	logical   protocol.LogicalMessage
	relations map[uint32]protocol.LogicalRelation
	streaming bool // between StreamStart and StreamStop
	assembler protocol.Assembler
	slots     *protocol.SlotMessage // that the current message completed
	slotsErr  error
	part      protocol.Part

	xlog       protocol.XLogData // of the current message
	row        protocol.DataRow
	text, json encoder
}

// NewSession returns a Session for the connection with that number. emit is
// given each message, in the order in which each direction has them.
func NewSession(cfg Config, id uint64, emit func(*Message)) *Session {
	s := &Session{cfg: cfg, id: id, emit: emit}
	for i := range s.flows {
		s.flows[i] = flow{s: s, dir: Direction(i), target: -1}
	}
	return s
}

// Feed deals with bytes of one direction, which follow those of that direction
// fed before. offset is where they lie in the input; b is not kept.
func (s *Session) Feed(dir Direction, time, offset int64, b []byte) {
	s.flows[dir].feed(b, offset, time)
}

// Lost says that n bytes of a direction are not in the input; -1 when it is not
// known how many.
func (s *Session) Lost(dir Direction, n int64, reason string) { s.flows[dir].lost(n, reason) }

// JoinLate says that the connection was there before the input begins: frames
// have to be found.
func (s *Session) JoinLate() {
	s.conv.joinLate()
	for i := range s.flows {
		s.flows[i].seeker.begin("the connection was under way when the capture began", 0)
	}
}

// Resume says where the connection stands when the input goes on from another.
func (s *Session) Resume(m *protocol.CaptureResume) {
	s.conv.Resume(m)
	for dir, left := range map[Direction]uint32{Downstream: m.DownstreamLeft, Upstream: m.UpstreamLeft} {
		if left > 0 {
			s.flows[dir].beginRest(int64(left))
		}
	}
}

// End says that nothing follows. Bytes that are no whole message are accounted
// for.
func (s *Session) End() {
	for i := range s.flows {
		s.flows[i].end()
	}
}

// Conversation returns where the connection stands.
func (s *Session) Conversation() *Conversation { return &s.conv }
