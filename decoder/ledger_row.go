package decoder

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// LedgerRow records one slot that is the helper's, or was until a promotion
// handed it to its subscriber.
type LedgerRow struct {
	Name     string `json:"slot_name"`
	Database string `json:"database"`
	Plugin   string `json:"plugin"`
	ID       string `json:"id"`               // 64 random bits in hex, drawn for each intent
	Intent   Intent `json:"intent,omitempty"` // what is under way; empty: settled

	// Released: the node was, or is, the primary and the slot is its subscriber's.
	// When the node is a standby again the slot has to pass for adoption.
	Released bool `json:"released,omitempty"`

	// PrimaryTimelineID is the timeline that the node was last seen to be the primary
	// of, with this slot. What it had by then lies on a later history only where that
	// left this timeline behind it (I-9).
	PrimaryTimelineID uint32 `json:"primary_timeline_id,omitempty"`

	// Found means that the slot was there under its name, of nobody that the ledger
	// knows, and was adopted.
	Found bool `json:"found,omitempty"`

	// BornLSN is where the anchor is while the slot is to be copied, L once it is made,
	// restart_lsn when it was adopted. That much was on disk then
	// (LogicalConfirmReceivedLocation, logical.c, saves a slot before a new restart_lsn
	// counts), so even after a crash of the standby the slot of this row is never below.
	BornLSN protocol.LSN `json:"born_lsn"`

	UpstreamLSN     protocol.LSN `json:"upstream_lsn"`     // U when last seen
	HighLSN         protocol.LSN `json:"high_lsn"`         // highest U of this incarnation
	HighTimelineID  uint32       `json:"high_timeline_id"` // of the upstream that said HighLSN
	PostmasterStart int64        `json:"postmaster_start"` // of the upstream that said UpstreamLSN
	TimelineID      uint32       `json:"timeline_id"`      // of the upstream that said UpstreamLSN

	Distrusted    bool `json:"distrusted,omitempty"`      // protection was broken (I-3)
	Consumed      bool `json:"consumed,omitempty"`        // found past what the subscriber has confirmed (I-4)
	Failover      bool `json:"failover,omitempty"`        // the upstream's slot has it
	TwoPhase      bool `json:"two_phase,omitempty"`       // the upstream's slot has it
	TwoPhaseClear bool `json:"two_phase_clear,omitempty"` // nothing prepared before the flag is left (I-8)

	Since time.Time `json:"since"` // when the row was written first
}

// Intent is a step written down before it is taken, so that a helper that was
// killed in the middle knows what to look at.
type Intent string

// The intents.
const (
	IntentNone Intent = ""
	IntentCopy Intent = "copy"
	IntentDrop Intent = "drop"
)

// track rebuilds what a restarted helper needs to know of the slot's past.
func (r *LedgerRow) track() Track {
	return Track{
		Confirmed: r.UpstreamLSN, High: r.HighLSN, HighTimelineID: r.HighTimelineID,
		PostmasterStart: r.PostmasterStart, TimelineID: r.TimelineID, Distrusted: r.Distrusted, Consumed: r.Consumed,
		TwoPhaseClear: r.TwoPhaseClear, Failover: r.Failover,
	}
}

// remember keeps of a track what a restarted helper needs to know.
func (r *LedgerRow) remember(t Track) {
	r.UpstreamLSN, r.HighLSN, r.HighTimelineID = t.Confirmed, t.High, t.HighTimelineID
	r.PostmasterStart, r.TimelineID = t.PostmasterStart, t.TimelineID
	r.Distrusted, r.Consumed = t.Distrusted, t.Consumed
	r.TwoPhaseClear, r.Failover = t.TwoPhaseClear, t.Failover
}

// rememberTracks brings all rows of the helper's slots up to what the tracks know.
func rememberTracks(rows map[string]LedgerRow, tracks map[string]Track) {
	for name, row := range rows {
		if t, ok := tracks[name]; ok && !row.Released && t.Confirmed != protocol.InvalidLSN {
			row.remember(t)
			rows[name] = row
		}
	}
}

// withinRecord cuts an advance off at the U of the slot's row, where that is ahead
// of the slot at all. So one write of all rows serves a whole round of advances,
// and the ledger still knows a U for wherever a slot has come to.
func withinRecord(s Step, row LedgerRow, l *LocalSlot) Step {
	if s.Kind == StepAdvance && row.UpstreamLSN > l.ConfirmedFlushLSN {
		s.Target = min(s.Target, row.UpstreamLSN)
	}
	return s
}

// rememberVerdict writes down at once what decides at a promotion whether a slot is
// handed over. What is wrong with one: the step that would mend it may have to
// wait; a U that went back is such a thing, since a copy decided on the U before may
// still be under way, and when that slot has become ready after all, the ledger has
// to know a U for it. And that nothing prepared before the flag is left (I-8): a slot
// that was called ready by that must be so after a restart, too.
func rememberVerdict(rows map[string]LedgerRow, tracks map[string]Track, standby *Standby) {
	for name, row := range rows {
		t, seen := tracks[name]
		l, _ := standby.Slot(name)
		if seen && !row.Released && (t.Distrusted != row.Distrusted || t.Consumed != row.Consumed ||
			t.TwoPhaseClear != row.TwoPhaseClear || t.Confirmed != protocol.InvalidLSN && t.Confirmed < row.UpstreamLSN ||
			l.ConfirmedFlushLSN > row.UpstreamLSN && l.ConfirmedFlushLSN <= t.Confirmed) {
			row.remember(t)
			rows[name] = row
		}
	}
}

// recordSteps writes down steps that are about to be taken, and cuts advances off
// at what is written down.
func recordSteps(rows map[string]LedgerRow, steps []Step, tracks map[string]Track, standby *Standby, now time.Time) {
	for i := range steps {
		s := &steps[i]
		l, _ := standby.Slot(s.Slot)
		if *s = withinRecord(*s, rows[s.Slot], &l); s.Kind == StepAdvance && s.Target > rows[s.Slot].UpstreamLSN {
			rememberTracks(rows, tracks)
		}
		writeIntent(rows, *s, tracks[s.Slot], &l, now)
	}
}

// describes reports whether a slot of the standby can be the one of this row. A
// slot never goes back, so one behind where the row's was born is another (I-9). A
// copy that was written down is where its anchor was until it is settled, so one
// that is elsewhere was made by somebody else meanwhile.
func (r *LedgerRow) describes(l *LocalSlot) bool {
	if l.Physical || l.Temporary || l.Synced || l.Database != r.Database || l.Plugin != r.Plugin {
		return false
	}
	at := l.ConfirmedFlushLSN
	switch r.Intent {
	case IntentCopy:
		return at == r.BornLSN || at == protocol.InvalidLSN
	case IntentDrop:
		return at >= r.BornLSN || at == protocol.InvalidLSN
	}
	return at >= r.BornLSN
}

// writeIntent writes a step down before it is taken (I-10). An advance is written
// down by the U it relies on (recordSteps): a slot found past that was moved by
// somebody else.
func writeIntent(rows map[string]LedgerRow, s Step, t Track, l *LocalSlot, now time.Time) {
	row, had := rows[s.Slot]
	if s.Kind == StepCopy && had && row.Intent == IntentCopy && !row.Released && row.Database == s.Database &&
		row.Plugin == s.Plugin && row.TwoPhase == s.TwoPhase {
		row.remember(t) // written down at an earlier look, and not begun since
		row.BornLSN = s.Target
		rows[s.Slot] = row
		return
	}
	switch s.Kind {
	case StepCopy, StepAdopt:
		row = LedgerRow{Name: s.Slot, Database: s.Database, Plugin: s.Plugin, ID: newIntentID(), Since: now}
		row.remember(t)
		row.Intent, row.TwoPhase, row.BornLSN = IntentCopy, s.TwoPhase, s.Target
		if s.Kind == StepAdopt {
			row.Intent, row.BornLSN, row.TwoPhase, row.Found = IntentNone, l.RestartLSN, l.TwoPhase, !had
		}
	case StepDrop:
		row.Intent, row.ID = IntentDrop, newIntentID()
	case StepForget:
		delete(rows, s.Slot)
		return
	}
	if had || s.Kind == StepCopy || s.Kind == StepAdopt {
		rows[s.Slot] = row
	}
}

// writeOutcome settles the row of a step that was taken. reached is where the
// slot is now.
func writeOutcome(rows map[string]LedgerRow, s Step, reached protocol.LSN) {
	switch s.Kind {
	case StepCopy:
		if row, had := rows[s.Slot]; had {
			row.Intent, row.BornLSN = IntentNone, reached
			rows[s.Slot] = row
		}
	case StepDrop:
		delete(rows, s.Slot) // the slot first, then the row
	}
}
