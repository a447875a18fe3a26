package decoder

import (
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/slotcatalog"
	"github.com/slotferry/slotferry/protocol"
)

// View is all that Decide looks at. It is a value: the same View gives the same
// Decision.
type View struct {
	Now      time.Time
	Standby  Standby
	Upstream Upstream
	Owned    map[string]LedgerRow // the ledger, by slot name
	Tracks   map[string]Track     // what was seen of each slot before

	Protection Protection // what was seen of the upstream's physical slot before

	Anchor Anchor
	Busy   map[string]bool // slots with a step under way

	Settings Settings
}

// Settings are the helper's own knobs.
type Settings struct {
	AdvanceInterval time.Duration // least time between two advances of one slot
	AdvanceShare    float64       // most CPU time of advancing, as a share of one core
	RetainBudget    protocol.LSN  // WAL bytes that a slot keeps on the standby, past which AdvanceShare does not count
	MaxStep         protocol.LSN  // most WAL bytes one advance call moves a slot
	AdvanceDeadline time.Duration // how long the first advance call of a slot may take
	AnchorBudget    protocol.LSN  // most WAL bytes the anchor may hold for slots that lag
	AnchorInterval  time.Duration // least time between two advances of the anchor
	CreateDeadline  time.Duration // how long the anchor's creation may wait
	StaleAfter      int           // heartbeats without a message after which the upstream's state is stale
}

// DefaultSettings are what the helper uses where the operator says nothing.
func DefaultSettings() Settings {
	return Settings{
		AdvanceInterval: 5 * time.Second,
		AdvanceShare:    0.05,
		RetainBudget:    1 << 30,
		MaxStep:         256 << 20,
		AdvanceDeadline: 2 * time.Minute,
		AnchorBudget:    1 << 30,
		AnchorInterval:  10 * time.Second,
		CreateDeadline:  60 * time.Second,
		StaleAfter:      5,
	}
}

// Standby is the standby server as one statement saw it.
type Standby struct {
	SystemIdentifier uint64
	ServerVersionNum uint32
	InRecovery       bool
	Replay           protocol.LSN // InvalidLSN: nothing replayed since the start
	Receive          protocol.LSN // end of WAL received and flushed
	ReceivedTLI      uint32       // 0: no walreceiver is running

	// Timeline is that of a primary; 0 in recovery.
	Timeline uint32

	// History says where each timeline before HistoryTLI ended. It is that of the
	// timeline now received only once HistoryTLI is that one.
	History    History
	HistoryTLI uint32

	WALLevel                  string
	HotStandbyFeedback        bool
	WALReceiverStatusInterval time.Duration
	PrimarySlotName           string
	SyncReplicationSlots      bool
	MaxReplicationSlots       int
	IdleSlotTimeout           time.Duration // idle_replication_slot_timeout; 0: off or unknown to this version
	ApplyDelay                time.Duration // recovery_min_apply_delay
	ReplayPaused              bool
	OutputPlugins             []string // output_plugin_libraries; nil: this version has no such setting

	Slots []LocalSlot // all of them, physical ones too, by name
}

// LocalSlot is a slot of the standby.
type LocalSlot = slotcatalog.Slot

// Slot returns the standby's slot of that name.
func (s *Standby) Slot(name string) (LocalSlot, bool) {
	i, ok := slices.BinarySearchFunc(s.Slots, name, func(l LocalSlot, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return LocalSlot{}, false
	}
	return s.Slots[i], true
}

// sortSlots puts slots into the order that Standby.Slots has.
func sortSlots(slots []LocalSlot) {
	slices.SortFunc(slots, func(a, b LocalSlot) int { return strings.Compare(a.Name, b.Name) })
}

// Upstream is what the last accepted slot message said. A message of another
// system identifier is never accepted, and leaves OtherSystem set.
type Upstream struct {
	Message     *protocol.SlotMessage // nil: none yet
	Arrived     time.Time
	OtherSystem uint64 // system identifier of a refused message, 0: none
	NoRelay     bool   // the address answers, but not as a relay
	System      uint64 // system identifier the standby's walreceiver was told upstream; 0: not known

	// Trouble is why no message comes, as far as that is known; ReasonNone: it is not.
	Trouble       Reason
	TroubleDetail string
}

// Anchor is the state of the anchor slot.
type Anchor struct {
	Phase       AnchorPhase
	Name        string
	Position    protocol.LSN // confirmed_flush_lsn
	RestartLSN  protocol.LSN
	CatalogXmin uint32
	Proven      bool
	ProvenBy    Protection // what was seen to hold CatalogXmin, where Proven
	Started     time.Time  // of the creation under way
	LastAdvance time.Time
	RetryAt     time.Time
	RetryWait   time.Duration // the pause before RetryAt
	LastError   Reason
	LastDetail  string
	Copies      int // copies under way: the anchor must not move
}

// AnchorPhase says how far the anchor is.
type AnchorPhase uint8

// The phases of the anchor.
const (
	AnchorNone AnchorPhase = iota
	AnchorCreating
	AnchorLive
	AnchorMoving // an advance is under way
)

// String returns none, creating, live or moving.
func (p AnchorPhase) String() string {
	return [...]string{"none", "creating", "live", "moving"}[p]
}
