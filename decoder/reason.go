package decoder

// State is what a slot is: pending (will be ready without hands), ready (safe
// to fail over to) or blocked (somebody must do something, or has left it to
// somebody else).
type State string

// The slot states.
const (
	StatePending State = "pending"
	StateReady   State = "ready"
	StateBlocked State = "blocked"
)

// Reason says why a slot is not ready. The set is fixed: scripts may compare.
type Reason string

// The reasons. Where PostgreSQL has a word for it, it is that word: an
// invalidated slot has the invalidation_reason of pg_replication_slots.
const (
	ReasonNone Reason = ""

	// The whole standby.
	ReasonStandbyUnreachable Reason = "standby_unreachable"
	ReasonStandbyVersion     Reason = "standby_version"
	ReasonNotInRecovery      Reason = "not_in_recovery"
	ReasonWALLevel           Reason = "wal_level"
	ReasonFeedbackOff        Reason = "hot_standby_feedback_off"
	ReasonStatusInterval     Reason = "wal_receiver_status_interval_zero"
	ReasonNoPhysicalSlot     Reason = "no_physical_slot"
	ReasonPhysicalMissing    Reason = "physical_slot_missing"
	ReasonPhysicalInactive   Reason = "physical_slot_inactive"
	ReasonFeedbackNotArrived Reason = "feedback_not_arrived"
	ReasonCatalogXminNotHeld Reason = "catalog_xmin_not_held"
	ReasonNothingReplayed    Reason = "nothing_replayed"

	// The upstream.
	ReasonNoUpstreamState Reason = "no_upstream_state"
	ReasonNoRelay         Reason = "no_relay"
	ReasonUpstreamStale   Reason = "upstream_state_stale"

	ReasonUpstreamUnreachable Reason = "upstream_unreachable"
	ReasonUpstreamRefused     Reason = "upstream_refused"
	ReasonOtherSystem         Reason = "other_system_identifier"
	ReasonTimelineDiffers     Reason = "timeline_differs"
	ReasonNotStreaming        Reason = "not_streaming"
	ReasonUpstreamNotReady    Reason = "upstream_not_ready"

	// The anchor.
	ReasonNoAnchor           Reason = "no_anchor"
	ReasonWaitingRunningXact Reason = "waiting_for_running_xacts"
	ReasonWaitingTransaction Reason = "waiting_for_transaction"
	ReasonRecoveryConflict   Reason = "recovery_conflict"

	// One slot.
	ReasonBeingCreated        Reason = "being_created"
	ReasonSubscriberBehind    Reason = "subscriber_behind"
	ReasonWALNotReplayed      Reason = "wal_not_replayed"
	ReasonBeingMade           Reason = "being_made"
	ReasonBeingRebuilt        Reason = "being_rebuilt"
	ReasonConsumedOnStandby   Reason = "consumed_on_standby"
	ReasonAheadAfterCrash     Reason = "ahead_after_upstream_crash"
	ReasonAheadOfUpstream     Reason = "ahead_of_upstream"
	ReasonDistrusted          Reason = "protection_was_broken"
	ReasonTwoPhase            Reason = "two_phase"
	ReasonPrepared            Reason = "waiting_for_prepared_transaction"
	ReasonSlotSync            Reason = "left_to_slot_sync"
	ReasonNameClash           Reason = "name_clash"
	ReasonOtherManager        Reason = "other_slot_manager"
	ReasonFound               Reason = "waiting_for_consistent_point"
	ReasonOffHistory          Reason = "not_on_this_history"
	ReasonUpstreamInvalidated Reason = "upstream_invalidated"
	ReasonNotOnUpstream       Reason = "not_on_upstream"
	ReasonSlotsExhausted      Reason = "max_replication_slots"
	ReasonPluginMissing       Reason = "plugin_missing"
	ReasonPluginNotListed     Reason = "output_plugin_libraries"
	ReasonDatabaseRefused     Reason = "database_refused"
	ReasonPrivilege           Reason = "insufficient_privilege"
	ReasonLedger              Reason = "ledger_not_writable"
	ReasonError               Reason = "error"

	// The standby's slot was invalidated: pg_replication_slots.invalidation_reason,
	// and "conflicting" on 16, which has no more than that.
	ReasonRowsRemoved Reason = "rows_removed"
	ReasonWALRemoved  Reason = "wal_removed"
	ReasonWALLevelLow Reason = "wal_level_insufficient"
	ReasonIdleTimeout Reason = "idle_timeout"
	ReasonConflicting Reason = "conflicting"
)

// hints say what would clear a reason. Every reason but ReasonNone has one.
var hints = map[Reason]string{
	ReasonStandbyUnreachable: "Check --standby, the server, its pg_hba.conf and the password file.",
	ReasonStandbyVersion:     "Decoding on a standby needs PostgreSQL 16 or newer there. WAL is forwarded all the same.",
	ReasonNotInRecovery:      "This server is a primary. Nothing is ferried to it until it is a standby again.",
	ReasonWALLevel:           "Set wal_level=logical on the primary and on the standby; both need a restart.",
	ReasonFeedbackOff:        "Set hot_standby_feedback=on on the standby and reload.",
	ReasonStatusInterval:     "Set wal_receiver_status_interval above 0 on the standby and reload.",
	ReasonNoPhysicalSlot:     "Create a physical slot on the upstream, set primary_slot_name on the standby and reload.",
	ReasonPhysicalMissing:    "The upstream has no persistent physical slot named as primary_slot_name says; create it.",
	ReasonPhysicalInactive:   "The standby's walreceiver is not streaming from its physical slot; clears when it connects.",
	ReasonFeedbackNotArrived: "Clears when the standby's first feedback reaches the upstream (wal_receiver_status_interval).",
	ReasonCatalogXminNotHeld: "The upstream's physical slot does not hold this slot's catalog_xmin; clears with the next feedback.",
	ReasonNothingReplayed:    "Clears when the standby has replayed its first WAL since its start.",
	ReasonNoUpstreamState:    "No slot message has arrived. The standby must stream through the helper, and that through a relay, with sslmode=disable.",
	ReasonNoRelay:            "The address in --upstream is no slotferry relay, or the session is encrypted: name the relay, with sslmode=disable.",
	ReasonUpstreamStale:      "Slot messages have stopped. Check the relay and the connection to it.",
	ReasonOtherSystem:        "The relay is in front of another cluster. Point --upstream at the relay of this standby's primary.",
	ReasonTimelineDiffers:    "Clears when the standby streams the timeline that the relay's server is on.",
	ReasonNotStreaming:       "The standby has no walreceiver; clears when it streams again.",
	ReasonUpstreamNotReady:   "The upstream is a standby and its own slot is not ready, or its helper is not known to the relay (--helper-url).",
	ReasonNoAnchor:           "Clears when the anchor slot has been made.",
	ReasonWaitingRunningXact: "Clears with the next running-xacts record. The relay asks for it; grant EXECUTE on pg_log_standby_snapshot().",
	ReasonWaitingTransaction: "Clears when that transaction ends.",
	ReasonRecoveryConflict:   "The server ended the anchor's session: most often replay had to remove rows it needed. It is made again by itself.",
	ReasonBeingCreated:       "The slot is still being created upstream.",
	ReasonSubscriberBehind:   "Clears when the subscriber has confirmed that much more WAL.",
	ReasonWALNotReplayed:     "Clears when the standby has replayed up to there.",
	ReasonBeingMade:          "Clears by itself, in milliseconds.",
	ReasonBeingRebuilt:       "Clears by itself.",
	ReasonConsumedOnStandby:  "Somebody consumed this slot on the standby past the subscriber's position; it is made again.",
	ReasonAheadAfterCrash:    "The upstream crashed and its slot fell back. Clears when the subscriber confirms again.",
	ReasonAheadOfUpstream:    "Clears when the subscriber has confirmed as much on the new primary.",
	ReasonDistrusted:         "hot_standby_feedback was interrupted after this slot was made; it is made again.",
	ReasonTwoPhase:           "PostgreSQL 16 and 17 set it for pgoutput only: turn it off, use pgoutput, or upgrade. If the standby has a slot whose two_phase differs, drop that one.",
	ReasonPrepared:           "Clears when that prepared transaction has ended and the subscriber has confirmed it.",
	ReasonSlotSync:           "sync_replication_slots is on and this slot has failover set: PostgreSQL's own worker has it.",
	ReasonNameClash:          "The standby has a slot of this name that is not slotferry's. Drop or rename it there.",
	ReasonOtherManager:       "Another program keeps dropping or moving it (pg_failover_slots, Patroni): one of the two must leave it out. Tried again in 10 minutes.",
	ReasonFound:              "The slot was there before the helper. Clears when its subscriber goes on and its restart_lsn has moved on the standby.",
	ReasonOffHistory:         "The standby's slot of this name lies beyond the timeline switch. Drop it there.",

	ReasonUpstreamUnreachable: "Check host and port of --upstream, that the relay and the server behind it run, and that max_wal_senders there leaves room.",
	ReasonUpstreamRefused:     "Check the user and the password (of --upstream; behind a helper with --listen, of the standby's primary_conninfo), and pg_hba.conf upstream.",

	ReasonUpstreamInvalidated: "The slot is invalid on the upstream. Drop it there and set the subscription up again.",
	ReasonNotOnUpstream:       "The upstream has no slot of this name. Drop it on the standby if nobody needs it: it keeps WAL.",
	ReasonSlotsExhausted:      "Raise max_replication_slots on the standby (restart), or drop slots there.",
	ReasonPluginNotListed:     "Add the slot's output plugin to output_plugin_libraries on the standby and reload.",
	ReasonPluginMissing:       "Install the slot's output plugin on the standby.",
	ReasonDatabaseRefused:     "The helper's role must be able to connect to the slot's database there: ALLOW_CONNECTIONS, CONNECT, pg_hba.conf; max_connections, max_wal_senders.",
	ReasonPrivilege:           "The helper's role needs REPLICATION and pg_monitor on the standby.",
	ReasonLedger:              "Make the directory of --state-dir writable for the helper.",
	ReasonError:               "See the detail; it is tried again.",

	ReasonRowsRemoved: "Invalidated on the standby; it is dropped and made again by itself.",
	ReasonWALRemoved:  "Invalidated on the standby (max_slot_wal_keep_size); it is dropped and made again by itself.",
	ReasonWALLevelLow: "Set wal_level=logical on the primary again; the slot is then made again by itself.",
	ReasonIdleTimeout: "Invalidated on the standby (idle_replication_slot_timeout); it is dropped and made again by itself.",
	ReasonConflicting: "Invalidated on the standby by a recovery conflict; it is dropped and made again by itself.",
}

// invalidated returns the reason for an invalidation_reason of the standby. One
// that a later server may have is told in the detail.
func invalidated(invalidationReason string) Reason {
	switch r := Reason(invalidationReason); r {
	case ReasonRowsRemoved, ReasonWALRemoved, ReasonWALLevelLow, ReasonIdleTimeout:
		return r
	}
	return ReasonConflicting
}

// Hint says in one sentence what would clear the reason.
func (r Reason) Hint() string { return hints[r] }
