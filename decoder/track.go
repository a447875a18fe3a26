package decoder

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// Track is what has been seen of one upstream slot over several messages, and
// of the standby's slot of that name over several steps.
type Track struct {
	Confirmed       protocol.LSN // U in the last message that had one
	High            protocol.LSN // highest U of this incarnation; above Confirmed after a crash of the upstream
	PostmasterStart int64        // of the upstream that said Confirmed
	TimelineID      uint32       // of the upstream that said Confirmed

	Proven     bool // protection has been proven for the standby's slot of today
	Distrusted bool // protection was broken after it had been proven

	LastAdvance time.Time     // end of the last advance call
	Cost        time.Duration // what the last advance call took
	RetryAt     time.Time     // after an error: no step before this
	LastError   Reason        // why the last step failed; ReasonNone: it did not
	LastDetail  string
}

// Observe returns the track after a slot message said u of its slot.
//
// I-14: a position that goes back under the same postmaster and timeline is a
// new incarnation of the slot; under another it is a crash or a change of the
// upstream, and the same slot.
func (t Track) Observe(m *protocol.SlotMessage, u *protocol.SlotState) Track {
	sameLife := t.PostmasterStart == m.PostmasterStartTime && t.TimelineID == m.TimelineID
	if !sameLife {
		t.Proven = false // I-3: protection is proven anew behind another upstream
	}
	switch {
	case u.ConfirmedFlushLSN == protocol.InvalidLSN && t.Confirmed != protocol.InvalidLSN,
		u.ConfirmedFlushLSN < t.Confirmed && sameLife:
		t = Track{} // the name is the same, the slot is another
	}
	t.PostmasterStart = m.PostmasterStartTime
	t.TimelineID = m.TimelineID
	t.Confirmed = u.ConfirmedFlushLSN
	t.High = max(t.High, t.Confirmed)
	return t
}

// coversAhead reports whether a local position beyond U is only what the
// upstream forgot in a crash: the subscriber had confirmed it before.
func (t Track) coversAhead(local protocol.LSN) bool {
	return t.Confirmed < t.High && local <= t.High
}
