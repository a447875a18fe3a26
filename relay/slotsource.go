package relay

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// SlotSourceConfig says which slots a SlotSource reads, and how often.
type SlotSourceConfig struct {
	// Conninfo is a libpq conninfo of the upstream. Any login role will do; for
	// RequestSnapshot it needs EXECUTE on pg_log_standby_snapshot().
	Conninfo string

	PollInterval     time.Duration // between two looks at the catalog; 0 means 100 ms
	Heartbeat        time.Duration // between two messages when nothing changes; 0 means 1 s
	SnapshotInterval time.Duration // least time between two snapshots; 0 means 500 ms
	QueryTimeout     time.Duration // of one look at the catalog; 0 means 10 s

	SlotFilters

	// Readiness is asked when the upstream is in recovery: what its own helper
	// says of each slot. nil, or a slot it does not name: unknown. An error is
	// logged once per change of state and makes all slots unknown.
	Readiness func(context.Context) (map[string]protocol.Readiness, error)

	Logger zerolog.Logger
}

// SlotFilters selects slots. Patterns are path.Match globs. The zero value
// selects every logical slot but temporary and table-synchronization ones.
type SlotFilters struct {
	Include   []string // slot names; empty: all
	Exclude   []string // slot names, after Include
	Databases []string // databases; empty: all

	// IncludeTableSync also takes the slots of a subscription's initial
	// table copy, pg_<subscription>_sync_<relation>_<system identifier>.
	IncludeTableSync bool
}

// SlotSourceStatus is what a SlotSource knows about itself at one moment.
type SlotSourceStatus struct {
	Connected        bool      `json:"connected"`
	Upstream         string    `json:"upstream"` // address
	SystemIdentifier uint64    `json:"system_identifier,string"`
	TimelineID       uint32    `json:"timeline_id"`
	ServerVersionNum uint32    `json:"server_version_num"`
	InRecovery       bool      `json:"in_recovery"`
	Epoch            uint64    `json:"epoch,string"`
	Sequence         uint64    `json:"sequence"`
	Slots            int       `json:"slots"`        // in the last message
	LastMessage      time.Time `json:"last_message"` // zero: none yet
	Error            string    `json:"error,omitempty"`
	Hint             string    `json:"hint,omitempty"`
	Snapshots        uint64    `json:"snapshots"` // pg_log_standby_snapshot() calls that succeeded
	SnapshotError    string    `json:"snapshot_error,omitempty"`
	SnapshotHint     string    `json:"snapshot_hint,omitempty"`
}

// SlotSource reads the upstream's slots over one ordinary SQL connection, for
// all sessions.
type SlotSource struct{ cfg SlotSourceConfig }

// NewSlotSource checks the configuration. Its error names everything that is
// wrong.
func NewSlotSource(cfg SlotSourceConfig) (*SlotSource, error) { return &SlotSource{cfg: cfg}, nil }

// Run reads until ctx ends, and reconnects when the connection is lost. Its
// error is nil when ctx ended it.
func (s *SlotSource) Run(ctx context.Context) error { return errors.New("not there yet") }

// Subscribe calls f with every message, with the newest one at once if it is
// still fresh. f is called from the source's goroutine or from Subscribe
// itself, must not block and must not change the message. After cancel has
// returned f is not called again.
func (s *SlotSource) Subscribe(f func(*protocol.SlotMessage)) (cancel func()) { return func() {} }

// RequestSnapshot asks for a pg_log_standby_snapshot() on the upstream. It
// does not wait. Requests are coalesced, at most one call is made per
// SnapshotInterval, and none on an upstream in recovery.
func (s *SlotSource) RequestSnapshot() {}

// SetFilters replaces the filters; the next look at the catalog uses them.
func (s *SlotSource) SetFilters(f SlotFilters) error { return nil }

// Status returns what is known now. It may be called at any time.
func (s *SlotSource) Status() SlotSourceStatus { return SlotSourceStatus{} }
