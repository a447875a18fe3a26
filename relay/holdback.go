package relay

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// Hold-back: what a logical stream sends is held until the standbys have the WAL
// it comes from. A subscriber confirms the position that an XLogData or a
// PrimaryKeepalive carries in its header, and no other: the apply worker
// (LogicalRepApplyLoop, worker.c) and pg_recvlogical take the greatest they have
// seen. For the message that ends a transaction, or prepares it, and for one that
// takes effect without a transaction (pg_logical_emit_message), that is the end of
// its record (write_location, logical.c); for a change it is where its record
// begins, and the end of its transaction comes behind. So a stream whose
// messages pass in their order, each only when the standbys have flushed up to
// the position in its header, gives a subscriber no transaction that they lack
// and lets it confirm nothing that they lack. What a plugin puts into a message
// has no part in that.

// HoldReason says why the next message of a logical stream passes or does not.
type HoldReason string

// The reasons, by what becomes of the message.
const (
	// It passes.
	HoldFlushed HoldReason = "flushed" // the standbys have it
	HoldExempt  HoldReason = "exempt"  // its slot is not to be held back
	HoldTimeout HoldReason = "timeout" // it was held for longer than allowed

	// It is held.
	HoldBehind   HoldReason = "standby_behind"       // the standbys named have not flushed it
	HoldTooFew   HoldReason = "too_few_standbys"     // fewer standbys stream than must have it
	HoldUnlisted HoldReason = "walsender_not_listed" // the slot source does not see the stream's walsender yet
	HoldUnread   HoldReason = "walsenders_not_read"  // the slot source has read no walsenders yet

	// The session ends, so that nothing waits for what cannot come.
	HoldGone     HoldReason = "walsender_gone"         // the slot source sees the stream's walsender no more
	HoldShutdown HoldReason = "upstream_shutting_down" // and waits for the subscriber to confirm all
)

// holdHints say what an operator can do, where a reason lasts that should not.
var holdHints = map[HoldReason]string{
	HoldTimeout: "Until the standbys have caught up, its subscriber can be ahead of the next primary.",
	HoldTooFew:  "Start the standbys that --hold-back names, or change it.",
	HoldUnlisted: "pg_stat_replication of the server in --slots does not list the stream's walsender. A pooler between relay and server " +
		"numbers sessions anew: let --upstream name the server itself, and --slots the same one.",
	HoldUnread: "The relay cannot read the server's walsenders: see slot_source in /status.",
}

// Hint returns a sentence that says what to do, "" when there is nothing.
func (r HoldReason) Hint() string { return holdHints[r] }

// holdVerdict is what becomes of a message.
type holdVerdict uint8

const (
	holdPass holdVerdict = iota
	holdHold
	holdEnd
)

// String returns pass, hold or end.
func (v holdVerdict) String() string { return [...]string{"pass", "hold", "end"}[v] }

// holdStream is what the decision needs to know of one logical stream.
type holdStream struct {
	Walsender uint32        // its pid
	WasListed bool          // the slot source has seen it before
	Exempt    bool          // its slot is
	LetGo     bool          // it was held for too long, and the standbys have not caught up since
	Held      time.Duration // for how long it has been held without a break
	Limit     time.Duration // how long that may be; 0: for ever
}

// shutdownGrace is how long a stream is still held after the upstream has begun to
// shut down. The upstream sends the rest of its WAL to the standbys in that time,
// and healthy ones flush it.
const shutdownGrace = time.Second

// holdDecision is what becomes of a message.
type holdDecision struct {
	Verdict  holdVerdict
	Reason   HoldReason
	At       protocol.LSN // position in the message's header
	Position protocol.LSN // what the stream may show its subscriber
	By       []string     // who has to flush, when it is held
}

// unlimited is the position of a stream that is not held back.
const unlimited = protocol.LSN(math.MaxUint64)

// String prints the decision on one line.
func (d holdDecision) String() string {
	position := d.Position.String()
	if d.Position == unlimited {
		position = "any"
	}
	text := fmt.Sprintf("%v %v at %s: %s", d.Verdict, d.At, position, d.Reason)
	if len(d.By) > 0 {
		text += " " + strings.Join(d.By, ", ")
	}
	return text
}

// decide says what becomes of a message that carries the position at. Equal
// counts: a flush position is that of the first byte that is not flushed.
func (v *holdView) decide(s holdStream, at protocol.LSN) holdDecision {
	d := holdDecision{At: at}
	listed := v.listed[s.Walsender]
	if listed {
		d.Position = v.position
	}
	switch {
	case s.Exempt:
		d.Reason, d.Position = HoldExempt, unlimited
	case at <= d.Position:
		d.Reason = HoldFlushed
	case s.LetGo, s.Limit > 0 && s.Held >= s.Limit:
		d.Reason, d.Position = HoldTimeout, unlimited
	case !v.known:
		d.Verdict, d.Reason = holdHold, HoldUnread
	case !listed && s.WasListed:
		d.Verdict, d.Reason = holdEnd, HoldGone
	case !listed:
		d.Verdict, d.Reason = holdHold, HoldUnlisted
	case v.ending && s.Held >= shutdownGrace:
		d.Verdict, d.Reason, d.By = holdEnd, HoldShutdown, v.names.behind(v.standbys, at)
	case v.position == protocol.InvalidLSN:
		d.Verdict, d.Reason, d.By = holdHold, HoldTooFew, v.names.behind(v.standbys, at)
	default:
		d.Verdict, d.Reason, d.By = holdHold, HoldBehind, v.names.behind(v.standbys, at)
	}
	return d
}
