package relay

import (
	"sync/atomic"

	"github.com/slotferry/slotferry/protocol"
)

// publication is one slot message, encoded once for all sessions.
type publication struct {
	message *protocol.SlotMessage
	parts   [][]byte // bodies; shared, never changed
}

// mailbox holds the newest publication and forgets the ones before it. A slow
// walreceiver costs staleness, never memory. It is empty while the slot source
// has no connection: what it holds is never older than that.
type mailbox struct{ p atomic.Pointer[publication] }

func (m *mailbox) put(p *publication) { m.p.Store(p) }
func (m *mailbox) get() *publication  { return m.p.Load() }

// Splicer says which frame of ours goes next on one stream. It is pure; its
// pump owns it.
type Splicer struct {
	sent  *publication // the last one begun
	parts [][]byte     // of it, still to be sent
}

// Next returns the next frame to splice in, nil when there is none. A message
// that was begun is finished before a newer one starts, so that messages which
// come faster than their parts can be sent arrive nevertheless. walEnd is the
// end of WAL forwarded before the frame.
func (s *Splicer) Next(newest *publication, walEnd protocol.LSN, sendTime int64) []byte {
	switch {
	case newest == nil:
		s.parts = nil
		return nil
	case walEnd == protocol.InvalidLSN:
		return nil // a walreceiver would take it for the end of WAL
	case len(s.parts) == 0 && newest != s.sent:
		s.sent, s.parts = newest, newest.parts
	}
	if len(s.parts) == 0 {
		return nil
	}
	body := s.parts[0]
	s.parts = s.parts[1:]
	return protocol.AppendSlotFrame(nil, walEnd, sendTime, body)
}

// Pending reports whether Next would return a frame.
func (s *Splicer) Pending(newest *publication) bool {
	return newest != nil && (len(s.parts) > 0 || newest != s.sent)
}

// Restart forgets what was sent: a new stream gets the newest message again.
func (s *Splicer) Restart() { *s = Splicer{} }
