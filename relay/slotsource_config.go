package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/protocol"
)

// SlotSourceConfig says which slots a SlotSource reads, and how often.
type SlotSourceConfig struct {
	// Conninfo is a libpq conninfo of the upstream. Any login role will do; for
	// RequestSnapshot it needs EXECUTE on pg_log_standby_snapshot().
	Conninfo string

	// PollInterval is the longest time between two looks at the catalog, and the
	// shortest between two messages that say no more than that positions have moved.
	// Looks that cost little are taken more often. 0 means 80 ms.
	PollInterval time.Duration

	Heartbeat        time.Duration // between two messages when nothing changes; 0 means 1 s
	SnapshotInterval time.Duration // least time between two snapshots; 0 means 500 ms
	QueryTimeout     time.Duration // of one look at the catalog; 0 means 10 s

	SlotFilters

	// Walsenders has it read who replicates from the upstream, too: hold-back needs
	// that.
	Walsenders bool

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
	Refused          bool      `json:"-"` // Error is what the upstream said
	Hint             string    `json:"hint,omitempty"`
	Snapshots        uint64    `json:"snapshots"` // pg_log_standby_snapshot() calls that succeeded
	SnapshotError    string    `json:"snapshot_error,omitempty"`
	SnapshotHint     string    `json:"snapshot_hint,omitempty"`
	Panics           uint64    `json:"panics"` // contained since the start
}

// sourceName is the application_name of the slot source's connection. It is an
// ordinary one: it never shows in pg_stat_replication and never counts as a
// synchronous standby.
const sourceName = "slotferry relay"

// sessionSettings go into the startup packet, where they win over what the
// server, the database or the role sets, from the first statement on. They are
// known to every version.
var sessionSettings = map[string]string{
	"statement_timeout": "10s", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "0",
	"default_transaction_read_only": "on", "default_transaction_isolation": "read committed",
	"search_path": "pg_catalog", "DateStyle": "ISO",
}

// withDefaults returns the configuration with its zero values filled in, the
// parsed conninfo, and all that is wrong.
func (c SlotSourceConfig) withDefaults() (SlotSourceConfig, *pgconn.Config, error) {
	var errs []error
	conn, err := pgconn.ParseConfig(c.Conninfo)
	if err != nil {
		errs = append(errs, fmt.Errorf("slots: %w", err))
	} else {
		conninfo.LeaveOut(conn)
		delete(conn.RuntimeParams, "replication")
		conn.RuntimeParams["application_name"] = sourceName
		for name, value := range sessionSettings {
			conn.RuntimeParams[name] = value
		}
		if conn.ValidateConnect != nil {
			// target_session_attrs asks what the session is like; this one would call
			// every server read-only. settingsQuery sets it afterwards.
			delete(conn.RuntimeParams, "default_transaction_read_only")
		}
		if conn.ConnectTimeout == 0 {
			conn.ConnectTimeout = defaultConnectTimeout
		}
	}
	if _, err := newSlotFilter(c.SlotFilters); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, fillDurations(
		duration{"poll interval", &c.PollInterval, 80 * time.Millisecond},
		duration{"heartbeat", &c.Heartbeat, time.Second},
		duration{"snapshot interval", &c.SnapshotInterval, 500 * time.Millisecond},
		duration{"query timeout", &c.QueryTimeout, 10 * time.Second},
	)...)
	return c, conn, errors.Join(errs...)
}
