package relay

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// Status is what a Relay knows about itself at one moment.
type Status struct {
	Mode     Mode            `json:"mode"`
	Listen   []string        `json:"listen"`
	Upstream []string        `json:"upstream"` // addresses, in the order they are tried
	Accepted uint64          `json:"accepted"` // connections since start
	Failed   uint64          `json:"failed"`   // sessions that ended with an error
	Sessions []SessionStatus `json:"sessions"` // oldest first

	// NoRelay is set when ModeStrip found that the upstream is a PostgreSQL
	// server and not a relay: there will be no slot messages.
	NoRelay bool `json:"no_relay"`

	// UpstreamError is why no walreceiver streams: the upstream could not be
	// reached, or what it said (that only in ModeStrip). nil while one streams.
	UpstreamError *UpstreamError `json:"upstream_error"`

	// SystemIdentifier is the upstream's, as a walreceiver was told; 0 when not
	// known. Only ModeStrip looks.
	SystemIdentifier uint64 `json:"system_identifier,string"`

	// HoldBack is nil when no logical stream is held back.
	HoldBack *HoldBackStatus `json:"hold_back,omitempty"`

	// SlotSource is nil when there is none.
	SlotSource *SlotSourceStatus `json:"slot_source,omitempty"`
}

// UpstreamError is an error of the upstream, or of the way to it.
type UpstreamError struct {
	Code    string `json:"sqlstate"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// SessionKind says who is on the downstream side of a session.
type SessionKind string

// The kinds of a session, as far as the startup packet and the last command
// tell.
const (
	KindUnknown  SessionKind = "unknown"  // no startup packet yet
	KindPhysical SessionKind = "physical" // replication=true: walreceiver, pg_receivewal, pg_basebackup
	KindLogical  SessionKind = "logical"  // replication=database
	KindSidecar  SessionKind = "sidecar"  // SLOT_STATE
	KindQuery    SessionKind = "query"    // an ordinary session
	KindCancel   SessionKind = "cancel"   // CancelRequest
	KindOpaque   SessionKind = "opaque"   // encrypted end to end
)

// SessionStatus is one session of a Relay.
type SessionStatus struct {
	ID              uint64      `json:"id"`
	Kind            SessionKind `json:"kind"`
	State           string      `json:"state"` // startup, idle, busy, streaming, ...
	ApplicationName string      `json:"application_name"`
	User            string      `json:"user"`
	Database        string      `json:"database"`
	Downstream      string      `json:"downstream"`               // address
	Upstream        string      `json:"upstream"`                 // address
	DownstreamTLS   string      `json:"downstream_tls,omitempty"` // version, where the relay ends it: "TLS 1.3"
	UpstreamTLS     string      `json:"upstream_tls,omitempty"`
	Started         time.Time   `json:"started"`
	OptedIn         bool        `json:"opted_in"`
	NoRelay         bool        `json:"no_relay"` // ModeStrip: nobody upstream knows slot messages

	TimelineID uint32       `json:"timeline_id"` // of START_REPLICATION; 0 when not given
	StartLSN   protocol.LSN `json:"start_lsn"`   // of START_REPLICATION
	Position   protocol.LSN `json:"position"`    // end of WAL forwarded; under hold-back what a logical subscriber was shown

	Spliced         uint64    `json:"spliced"`  // frames put in: slot messages downstream, reports upstream
	Stripped        uint64    `json:"stripped"` // frames taken out
	Damaged         uint64    `json:"damaged"`  // of those, frames that could not be decoded
	LastSlotMessage time.Time `json:"last_slot_message"`

	// HoldBack is nil where nothing can be held back.
	HoldBack *StreamHold `json:"hold_back,omitempty"`

	// HelperReport is the newest that came on this session, nil when none did.
	HelperReport *protocol.HelperReport `json:"helper_report,omitempty"`
}
