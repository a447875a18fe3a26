package protocol

import "fmt"

// SlotMessage is the state of an upstream's replication slots at one moment.
// It is always the whole state: a later message replaces an earlier one, and
// losing one only delays. Its wire form is in doc.go.
//
// A NULL of the server is the zero value: 0/0 for an LSN, 0 for an xid or a
// time, "" for a text.
type SlotMessage struct {
	Epoch    uint64 `json:"epoch,string"` // drawn at random for every connection that the slots are read over
	Sequence uint64 `json:"sequence"`     // counts up from 1 within an epoch

	SystemIdentifier    uint64 `json:"system_identifier,string"`
	TimelineID          uint32 `json:"timeline_id"`           // the upstream's current timeline
	PostmasterStartTime int64  `json:"postmaster_start_time"` // microseconds since 2000-01-01 UTC; when it began anew after a backend crashed
	ServerVersionNum    uint32 `json:"server_version_num"`    // as in server_version_num: 160014
	InRecovery          bool   `json:"in_recovery"`           // the upstream is itself a standby
	CaptureLSN          LSN    `json:"capture_lsn"`           // upstream's WAL (or replay) position just before the slots were read
	CaptureTime         int64  `json:"capture_time"`          // upstream's clock at that moment, microseconds since 2000-01-01 UTC
	Interval            int64  `json:"interval"`              // microseconds after which the next message is due

	Slots         []SlotState    `json:"slots"`
	PhysicalSlots []PhysicalSlot `json:"physical_slots"`

	// What can keep a slot from being born on the standby.
	OpenTransactions     []OpenTransaction     `json:"open_transactions"`     // the oldest with an xid of each database
	PreparedTransactions []PreparedTransaction `json:"prepared_transactions"` // all
}

// SlotState is one logical slot of the upstream, in the words of
// pg_replication_slots.
type SlotState struct {
	Name               string    `json:"slot_name"`
	Plugin             string    `json:"plugin"`
	Database           string    `json:"database"`
	RestartLSN         LSN       `json:"restart_lsn"`
	ConfirmedFlushLSN  LSN       `json:"confirmed_flush_lsn"` // InvalidLSN: the slot is still being created
	CatalogXmin        uint32    `json:"catalog_xmin"`
	TwoPhase           bool      `json:"two_phase"`
	TwoPhaseAt         LSN       `json:"two_phase_at"` // 18 and newer
	Failover           bool      `json:"failover"`     // 17 and newer
	Synced             bool      `json:"synced"`       // 17 and newer
	Active             bool      `json:"active"`
	InvalidationReason string    `json:"invalidation_reason"` // 17 and newer; on 16 "conflicting" when conflicting; "wal_removed" when wal_status is lost
	WALStatus          string    `json:"wal_status"`
	InactiveSince      int64     `json:"inactive_since"` // 17 and newer; microseconds since 2000-01-01 UTC
	Readiness          Readiness `json:"readiness"`      // only where the upstream is a standby
}

// Readiness says what an upstream that is itself a standby knows of its own
// slot: whether it would be safe to fail over to.
type Readiness uint8

// The values of SlotState.Readiness. Readiness is transitive and never
// upgraded: behind an upstream in recovery only ReadinessReady lets a slot be
// ready.
const (
	ReadinessUnknown  Readiness = 0 // the upstream is a primary, or its helper was not asked
	ReadinessReady    Readiness = 1
	ReadinessNotReady Readiness = 2
)

// String returns unknown, ready or not_ready.
func (r Readiness) String() string {
	switch r {
	case ReadinessReady:
		return "ready"
	case ReadinessNotReady:
		return "not_ready"
	default:
		return "unknown"
	}
}

// MarshalText prints a Readiness for JSON.
func (r Readiness) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (r *Readiness) UnmarshalText(text []byte) error {
	for _, v := range []Readiness{ReadinessUnknown, ReadinessReady, ReadinessNotReady} {
		if string(text) == v.String() {
			*r = v
			return nil
		}
	}
	return fmt.Errorf("parse readiness %q: %w", text, ErrInvalid)
}

// PhysicalSlot is one physical slot of the upstream. A standby's slots are
// protected when the physical slot it streams from shows its catalog_xmin.
type PhysicalSlot struct {
	Name        string `json:"slot_name"`
	Active      bool   `json:"active"`
	Temporary   bool   `json:"temporary"`
	RestartLSN  LSN    `json:"restart_lsn"`
	Xmin        uint32 `json:"xmin"`
	CatalogXmin uint32 `json:"catalog_xmin"`
}

// OpenTransaction is the oldest open transaction with an xid of one database.
type OpenTransaction struct {
	Database  string `json:"database"`
	Xid       uint32 `json:"xid"`
	PID       int32  `json:"pid"`
	XactStart int64  `json:"xact_start"` // microseconds since 2000-01-01 UTC
}

// PreparedTransaction is one row of pg_prepared_xacts.
type PreparedTransaction struct {
	Database string `json:"database"`
	GID      string `json:"gid"`
	Xid      uint32 `json:"xid"`
	Prepared int64  `json:"prepared"` // microseconds since 2000-01-01 UTC
}
