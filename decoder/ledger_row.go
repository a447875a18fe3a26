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

	// BornLSN is L when the slot was made or adopted. It was on disk then, so even
	// after a crash of the standby the slot of this row is never below it.
	BornLSN protocol.LSN `json:"born_lsn"`

	UpstreamLSN     protocol.LSN `json:"upstream_lsn"`     // U when last seen
	HighLSN         protocol.LSN `json:"high_lsn"`         // highest U of this incarnation
	PostmasterStart int64        `json:"postmaster_start"` // of the upstream that said UpstreamLSN
	TimelineID      uint32       `json:"timeline_id"`      // of the upstream that said UpstreamLSN

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
		Confirmed: r.UpstreamLSN, High: r.HighLSN, PostmasterStart: r.PostmasterStart, TimelineID: r.TimelineID,
	}
}
