// Package slotcatalog reads pg_replication_slots of any server version. It asks
// for whole rows as JSON, so that columns are known by name and a server that
// lacks one, or has a new one, needs no table of versions.
package slotcatalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/protocol"
)

// Query returns one row and one text column for each replication slot.
const Query = `SELECT pg_catalog.row_to_json(s)::text FROM pg_catalog.pg_replication_slots s`

// Slot is one row of pg_replication_slots. For a physical slot the fields of
// logical ones are zero.
type Slot struct {
	protocol.SlotState
	Physical  bool
	Temporary bool
	ActivePID int32
	Xmin      uint32
}

// row has the columns of 13 to 18. A pointer stands for a column that may be
// NULL or that this server does not have.
type row struct {
	SlotName           string     `json:"slot_name"`
	Plugin             *string    `json:"plugin"`
	SlotType           string     `json:"slot_type"`
	Database           *string    `json:"database"`
	Temporary          bool       `json:"temporary"`
	Active             bool       `json:"active"`
	ActivePID          *int32     `json:"active_pid"`
	Xmin               *string    `json:"xmin"`
	CatalogXmin        *string    `json:"catalog_xmin"`
	RestartLSN         *string    `json:"restart_lsn"`
	ConfirmedFlushLSN  *string    `json:"confirmed_flush_lsn"`
	WALStatus          *string    `json:"wal_status"`
	TwoPhase           *bool      `json:"two_phase"`      // 14
	Conflicting        *bool      `json:"conflicting"`    // 16
	InactiveSince      *time.Time `json:"inactive_since"` // 17
	InvalidationReason *string    `json:"invalidation_reason"`
	Failover           *bool      `json:"failover"`
	Synced             *bool      `json:"synced"`
	TwoPhaseAt         *string    `json:"two_phase_at"` // 18
}

// Read returns all slots of the server, physical and temporary ones too.
func Read(ctx context.Context, conn *pgx.Conn) ([]Slot, error) {
	return read(ctx, conn, Query)
}

// ReadNamed returns the slot of that name, or none.
func ReadNamed(ctx context.Context, conn *pgx.Conn, name string) ([]Slot, error) {
	return read(ctx, conn, Query+` WHERE slot_name = $1`, name)
}

func read(ctx context.Context, conn *pgx.Conn, query string, args ...any) ([]Slot, error) {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read pg_replication_slots: %w", err)
	}
	slots, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Slot, error) {
		var raw []byte
		if err := r.Scan(&raw); err != nil {
			return Slot{}, err
		}
		return Parse(raw)
	})
	if err != nil {
		return nil, fmt.Errorf("read pg_replication_slots: %w", err)
	}
	return slots, nil
}

// Parse reads one row that Query returned.
func Parse(raw []byte) (Slot, error) {
	var r row
	if err := json.Unmarshal(raw, &r); err != nil {
		return Slot{}, fmt.Errorf("parse row of pg_replication_slots: %w", err)
	}
	s := Slot{Physical: r.SlotType == "physical", Temporary: r.Temporary}
	s.Name = r.SlotName
	s.Plugin = value(r.Plugin)
	s.Database = value(r.Database)
	s.Active = r.Active
	s.ActivePID = value(r.ActivePID)
	s.WALStatus = value(r.WALStatus)
	s.TwoPhase = value(r.TwoPhase)
	s.Failover = value(r.Failover)
	s.Synced = value(r.Synced)
	s.InvalidationReason = invalidation(&r)
	if r.InactiveSince != nil {
		s.InactiveSince = protocol.Micros(*r.InactiveSince)
	}
	for _, f := range []struct {
		text *string
		lsn  *protocol.LSN
		xid  *uint32
	}{
		{text: r.RestartLSN, lsn: &s.RestartLSN},
		{text: r.ConfirmedFlushLSN, lsn: &s.ConfirmedFlushLSN},
		{text: r.TwoPhaseAt, lsn: &s.TwoPhaseAt},
		{text: r.Xmin, xid: &s.Xmin},
		{text: r.CatalogXmin, xid: &s.CatalogXmin},
	} {
		if f.text == nil {
			continue
		}
		if f.lsn != nil {
			lsn, err := protocol.ParseLSN(*f.text)
			if err != nil {
				return Slot{}, fmt.Errorf("parse row of pg_replication_slots, slot %q: %w", s.Name, err)
			}
			*f.lsn = lsn
			continue
		}
		xid, err := strconv.ParseUint(*f.text, 10, 32)
		if err != nil {
			return Slot{}, fmt.Errorf("parse row of pg_replication_slots, slot %q: %w", s.Name, err)
		}
		*f.xid = uint32(xid)
	}
	return s, nil
}

// invalidation gives the reason in the words of PostgreSQL 17 for every version:
// 16 only says that a slot conflicts, and before that a lost slot is all there is.
func invalidation(r *row) string {
	switch {
	case r.InvalidationReason != nil:
		return *r.InvalidationReason
	case value(r.Conflicting):
		return "conflicting"
	case value(r.WALStatus) == "lost":
		return "wal_removed"
	}
	return ""
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
