package chaos

import (
	"fmt"
	"time"

	"github.com/slotferry/slotferry/internal/rig"
)

// Kind is what an act does.
type Kind string

// The kinds of act. All but those that happen in a moment are undone after Hold.
const (
	Kill         Kind = "kill -9"       // a process or a server, started again after Hold
	Pause        Kind = "SIGSTOP"       // a process or a server
	Restart      Kind = "restart"       // the standby, in order
	Cut          Kind = "cut"           // all connections of a leg, in a moment
	Blackhole    Kind = "blackhole"     // a leg: cut, and new connections are not answered
	StallUp      Kind = "stall up"      // a leg, bytes to the one that was connected to
	StallDown    Kind = "stall down"    // a leg, bytes to the one that connected
	FillDisk     Kind = "fill disk"     // that the helper's state directory is on
	MoveClock    Kind = "move clock"    // of a process, by Amount seconds
	NoFeedback   Kind = "no feedback"   // hot_standby_feedback off on the standby
	PauseReplay  Kind = "pause replay"  // on the standby
	EndSessions  Kind = "end sessions"  // of the helper on the standby, in a moment
	EndReceiver  Kind = "end receiver"  // the standby's walreceiver, in a moment
	HoldConsumer Kind = "hold consumer" // it does not consume
	BearSlot     Kind = "bear slot"     // on the primary, with a consumer of its own, in a moment
	DropSlot     Kind = "drop slot"     // one that was born so, in a moment
	RenewSlot    Kind = "renew slot"    // dropped and born again under its name, in a moment
	RewriteAll   Kind = "rewrite all"   // VACUUM FULL of tables and catalogs on the primary, in a moment
)

// What an act can be done to, beside legs and consumers.
const (
	Helper     = "helper"
	Relay      = "relay"
	Primary    = "primary"
	Standby    = "standby"
	Subscriber = "subscriber"

	LastHelper  = "last helper"  // of a cascade
	LastStandby = "last standby" // of a cascade
)

// LegSubscriber is the connection of all subscriptions to the primary, beside the
// legs of a pair.
const LegSubscriber rig.Leg = "subscriber"

// Act is one thing that happens.
type Act struct {
	At     time.Duration // since the phase began
	Kind   Kind
	On     string        // a process, a leg, a consumer or a slot
	Hold   time.Duration // 0: it happens in a moment
	Amount int           // MoveClock: seconds
}

func (a Act) String() string {
	text := fmt.Sprintf("%5.2f s  %s", a.At.Seconds(), a.Kind)
	if a.On != "" {
		text += " " + a.On
	}
	if a.Amount != 0 {
		text += fmt.Sprintf(" by %+d s", a.Amount)
	}
	if a.Hold != 0 {
		text += fmt.Sprintf(" for %.2f s", a.Hold.Seconds())
	}
	return text
}

// needs are what must be there, and not be touched by another act, from At until
// the act is undone.
func (a Act) needs() []string {
	switch a.Kind {
	case FillDisk:
		return []string{"disk"}
	case NoFeedback, PauseReplay, EndSessions, EndReceiver:
		return []string{Standby}
	case HoldConsumer:
		return []string{Subscriber, a.On}
	case BearSlot, DropSlot, RenewSlot, RewriteAll:
		return []string{Primary, a.On}
	case Cut, Blackhole, StallUp, StallDown:
		return []string{"leg " + a.On}
	}
	return []string{a.On}
}
