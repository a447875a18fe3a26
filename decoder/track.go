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
	HighTimelineID  uint32       // of the upstream that said High
	PostmasterStart int64        // of the upstream that said Confirmed
	TimelineID      uint32       // of the upstream that said Confirmed

	Database      string       // of the upstream's slot
	DatabaseHeard uint64       // sequence of the first message that had it in that one
	DatabaseSince protocol.LSN // it has been in that one since before this, the capture of the message after; InvalidLSN: no such message yet

	Failover   bool   // the upstream's slot has failover set
	Heard      bool   // Confirmed is from a message to this helper, not from its ledger
	ProvenBy   string // physical slot that was seen to protect the standby's slot of today; "": not proven
	Distrusted bool   // protection was broken after it had been proven
	Consumed   bool   // the standby's slot was found past what the subscriber has confirmed
	Remade     bool   // and that is because the upstream's slot was made again, further back

	// Of a two_phase slot on 16 and 17: transactions prepared before the standby's
	// slot had the flag must have ended, and that must be confirmed.
	PreparedSince protocol.LSN // capture of the first message from behind the flag
	PreparedUntil int64        // newest of the transactions prepared then; upstream's clock
	PreparedGone  uint64       // sequence of the first message that shows none of them
	PreparedEnd   protocol.LSN // they had ended by here, the capture of a message after that
	TwoPhaseClear bool         // and the subscriber has confirmed that

	// What somebody else did to the standby's slot (others.go).
	Left        protocol.LSN // where it was seen last, or left by our own step; InvalidLSN: not known
	Disturbed   int          // how often it was dropped or moved
	DisturbedAt time.Time    // the last time
	Disturbance string       // what it was then

	LastAdvance time.Time     // end of the last advance call
	Cost        time.Duration // what the last advance call took
	Patience    time.Duration // how long the next advance call may take; 0: Settings.AdvanceDeadline
	RetryAt     time.Time     // after an error: no step before this
	RetryWait   time.Duration // the pause before RetryAt
	LastError   Reason        // why the last step failed; ReasonNone: it did not
	LastDetail  string
}

// Observe returns the track after a slot message said u of its slot.
//
// I-14: a position that goes back under the same postmaster and timeline is a
// new incarnation of the slot; under another it is a crash or a change of the
// upstream, and the same slot. What is known of the standby's own slot stays.
func (t Track) Observe(m *protocol.SlotMessage, u *protocol.SlotState) Track {
	sameLife := t.PostmasterStart == m.PostmasterStartTime && t.TimelineID == m.TimelineID
	if !sameLife {
		t.ProvenBy = "" // I-3: protection is proven anew behind another upstream
	}
	if u.ConfirmedFlushLSN == protocol.InvalidLSN || u.ConfirmedFlushLSN < t.Confirmed && sameLife {
		t.High = 0 // the name is the same, the slot is another
		t.Remade = t.Confirmed != protocol.InvalidLSN
	}
	switch { // slots are read after CaptureLSN: what the first message shows may have happened since
	case u.Database != t.Database:
		t.Database, t.DatabaseHeard, t.DatabaseSince = u.Database, m.Sequence, protocol.InvalidLSN
	case t.DatabaseSince == protocol.InvalidLSN && m.Sequence != t.DatabaseHeard:
		t.DatabaseSince = m.CaptureLSN
	}
	t.Heard, t.Failover = true, u.Failover
	t.PostmasterStart = m.PostmasterStartTime
	t.TimelineID = m.TimelineID
	t.Confirmed = u.ConfirmedFlushLSN
	if t.Confirmed >= t.High {
		t.High, t.HighTimelineID = t.Confirmed, t.TimelineID
	}
	return t
}

// gone returns the track after a message that does not have the slot: one that has
// the name later is another.
func (t Track) gone() Track {
	t.Confirmed, t.High, t.HighTimelineID, t.Heard = 0, 0, 0, false
	t.Database, t.DatabaseHeard, t.DatabaseSince = "", 0, 0
	return t
}

// onTimeline cuts High off where the timeline that is now received forked off:
// what was confirmed beyond that is of a history that was left (I-6).
func (t Track) onTimeline(s *Standby) Track {
	if t.HighTimelineID == s.ReceivedTLI || t.TimelineID != s.ReceivedTLI || s.HistoryTLI != s.ReceivedTLI {
		return t
	}
	end, _ := s.History.Holds(t.HighTimelineID, s.ReceivedTLI, t.High)
	t.High, t.HighTimelineID = max(t.Confirmed, min(t.High, end)), s.ReceivedTLI
	return t
}

// coversAhead reports whether a local position beyond U is only what the
// upstream forgot in a crash: the subscriber had confirmed it before.
func (t Track) coversAhead(local protocol.LSN) bool {
	return t.Confirmed < t.High && local <= t.High
}

// everConfirmed is the highest position that the subscriber is known to have
// confirmed on the timeline of U.
func (t Track) everConfirmed() protocol.LSN {
	if t.HighTimelineID == t.TimelineID {
		return max(t.Confirmed, t.High)
	}
	return t.Confirmed
}
