package relay

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// holdGate holds one logical stream back, and the answers to
// CREATE_REPLICATION_SLOT, as part of its Flow. It is pure: its pump sets view and
// stream before it asks anything, and reads the rest afterwards.
type holdGate struct {
	view   *holdView
	stream holdStream

	slot  string       // of START_REPLICATION, "" when that is not certain; or the one that is made
	shown protocol.LSN // the greatest position that the subscriber has seen

	// Positions that keepalives were lowered from and that have not been shown since:
	// the one that has waited longest, and the greatest.
	withheld, withheldLast protocol.LSN

	blocked protocol.LSN // position of the message that waits; InvalidLSN: none does
	creates bool         // it is, or was, the answer to CREATE_REPLICATION_SLOT
	last    holdDecision // the last that did not pass
	timeout bool         // something passed because it was held for too long
	ahead   protocol.LSN // the greatest position that passed so, and because the stream is let go
	reached bool         // the standbys have it
}

// begin notes a new copy-both stream. What the subscriber asks to start from it has.
func (g *holdGate) begin(c *Conversation) {
	*g = holdGate{view: g.view, stream: g.stream, slot: c.streamSlot}
	g.stream.LetGo = false
	g.setView(g.view)
	if g.slot != "" {
		g.shown = c.command.StartLSN
	}
}

// end notes that no stream and no answer is there any more to be held.
func (g *holdGate) end() {
	*g = holdGate{view: g.view, stream: g.stream, shown: g.shown}
	g.stream.LetGo = false
	g.setView(g.view)
}

// setView has the gate decide by v from now on.
func (g *holdGate) setView(v *holdView) {
	g.view = v
	g.stream.Limit = v.timeout
	g.stream.Exempt = g.slot != "" && matchesAny(v.exempt, g.slot)
}

// decide asks, and notes what was said. A stream is let go until the standbys have all
// that passed meanwhile: a change that they have can come behind a commit that they do
// not have, and says nothing.
func (g *holdGate) decide(at protocol.LSN) holdDecision {
	if g.stream.LetGo && g.view.listed[g.stream.Walsender] && g.view.position >= g.ahead {
		g.reached, g.stream.LetGo, g.ahead = true, false, protocol.InvalidLSN
	}
	d := g.view.decide(g.stream, at)
	switch {
	case d.Verdict != holdPass:
		g.last = d
	case d.Reason == HoldTimeout:
		g.timeout, g.stream.LetGo, g.ahead = true, true, max(g.ahead, at)
	}
	return d
}

// data reports whether an XLogData that carries the position at passes.
func (g *holdGate) data(at protocol.LSN) bool {
	if g.decide(at).Verdict != holdPass {
		g.blocked = at
		return false
	}
	g.blocked = protocol.InvalidLSN
	g.show(at)
	return true
}

// what names what is held back, for the client.
func (g *holdGate) what() string {
	if g.creates {
		return "a CREATE_REPLICATION_SLOT whose answer is held back"
	}
	return "a logical stream that is held back"
}

// create reports whether the answer to a CREATE_REPLICATION_SLOT passes.
func (g *holdGate) create(slot string, consistentPoint protocol.LSN) bool {
	g.slot, g.creates = slot, true
	g.setView(g.view)
	if g.decide(consistentPoint).Verdict != holdPass {
		g.blocked = consistentPoint
		return false
	}
	g.blocked = protocol.InvalidLSN
	return true
}

// keepalive returns the position that a keepalive with the position at may show: at
// itself, or one that the walsender has given before. Where the standbys have flushed
// to is none of those: it can be in the middle of a record, which a promoted standby
// does not replay, so that its timeline begins before the record.
func (g *holdGate) keepalive(at protocol.LSN) protocol.LSN {
	d := g.decide(at)
	if d.Verdict == holdPass {
		g.show(at)
		return at
	}
	switch {
	case g.withheldLast <= d.Position:
		g.show(g.withheldLast)
	case g.withheld <= d.Position:
		g.show(g.withheld)
	}
	if at > g.shown {
		if g.withheld == protocol.InvalidLSN {
			g.withheld = at
		}
		g.withheldLast = max(g.withheldLast, at)
	}
	return min(at, g.shown)
}

// show notes a position that the subscriber gets to see.
func (g *holdGate) show(at protocol.LSN) {
	g.shown = max(g.shown, at)
	switch {
	case g.shown >= g.withheldLast:
		g.withheld, g.withheldLast = protocol.InvalidLSN, protocol.InvalidLSN
	case g.shown >= g.withheld:
		g.withheld = g.withheldLast
	}
}

// own returns the keepalive that the relay itself has to send now, between two
// messages, nil when there is none. A position that was withheld is shown when the
// standbys have it: the walsender may not say it again for half of
// wal_sender_timeout. At a tick it is shown as far as it can be, and a stream that
// is held is kept alive: the walsender cannot get a keepalive past the message
// that waits. There ReplyRequested has the subscriber speak to the walsender,
// which would else end the stream for its silence.
//
// No position is shown that the walsender has not given: the subscriber would confirm
// what it was never sent, or the middle of a record. A message that waits ends behind
// the standbys' position, and all that ends before has passed.
func (g *holdGate) own(tick bool, sendTime int64) *protocol.PrimaryKeepalive {
	before := g.shown
	if g.withheld != protocol.InvalidLSN && (tick || g.view.decide(g.stream, g.withheldLast).Verdict == holdPass) {
		g.keepalive(g.withheldLast)
	}
	alive := tick && g.blocked != protocol.InvalidLSN
	if alive {
		g.decide(g.blocked) // whether the session ends
	}
	if g.shown == before && !alive {
		return nil
	}
	return &protocol.PrimaryKeepalive{WALEnd: g.shown, SendTime: sendTime, ReplyRequested: alive}
}

// waitsFor is the position that the stream waits for, InvalidLSN when it waits for
// none.
func (g *holdGate) waitsFor() protocol.LSN {
	if g.blocked != protocol.InvalidLSN {
		return g.blocked
	}
	return g.withheld
}

// holdClock measures for how long a stream has waited for one position.
type holdClock struct {
	at    protocol.LSN
	since time.Time
}

// see notes what the stream waits for now, and returns for how long it has.
func (c *holdClock) see(at protocol.LSN, now time.Time) time.Duration {
	if at == protocol.InvalidLSN || at != c.at {
		c.at, c.since = at, now
	}
	return now.Sub(c.since)
}
