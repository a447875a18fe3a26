package relay

import (
	"slices"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// Looks are taken as often as shortestPause allows while they take no more than
// lookShare of the time, the way to the server included. So a birth is noticed soon
// where looking costs next to nothing, and a server with hundreds of slots, or one
// that is busy, is asked no more often than PollInterval says.
const (
	shortestPause = 20 * time.Millisecond
	lookShare     = 0.02
)

// pause is how long to wait after a look that took that long.
func (c *SlotSourceConfig) pause(took time.Duration) time.Duration {
	return min(c.PollInterval, max(shortestPause, time.Duration(float64(took)/lookShare)))
}

// news is what a message says that the one before did not.
type news uint8

const (
	noNews  news = iota // position and clock, open transactions, how far standbys have flushed
	moved               // subscribers have gone on: the newest of several such messages will do
	changed             // anything else
)

// due reports whether a message is to be sent now. sent is the age of the one before,
// pause the time until there may be another look.
func (c *SlotSourceConfig) due(n news, sent, pause time.Duration) bool {
	switch n {
	case changed:
		return true
	case moved:
		return sent+pause >= c.PollInterval // the next look would be too late
	}
	return sent >= c.Heartbeat-c.PollInterval/2
}

// newsOf compares two messages.
func newsOf(a, b *protocol.SlotMessage) news {
	switch {
	case a.SystemIdentifier != b.SystemIdentifier || a.TimelineID != b.TimelineID ||
		a.PostmasterStartTime != b.PostmasterStartTime || a.ServerVersionNum != b.ServerVersionNum ||
		a.InRecovery != b.InRecovery || !slices.Equal(a.PreparedTransactions, b.PreparedTransactions),
		!slices.EqualFunc(a.PhysicalSlots, b.PhysicalSlots, func(p, q protocol.PhysicalSlot) bool {
			p.RestartLSN, q.RestartLSN = 0, 0
			return p == q
		}):
		return changed
	case slices.Equal(a.Slots, b.Slots):
		return noNews
	case slices.EqualFunc(a.Slots, b.Slots, onlyMoved):
		return moved
	}
	return changed
}

// onlyMoved reports whether all that has happened to a slot is that its subscriber
// came, went on or left. A position that is there for the first time ends the slot's creation,
// and one that goes back is another slot.
func onlyMoved(a, b protocol.SlotState) bool {
	if a.ConfirmedFlushLSN == protocol.InvalidLSN || b.ConfirmedFlushLSN < a.ConfirmedFlushLSN {
		return a == b
	}
	a.ConfirmedFlushLSN, a.RestartLSN, a.CatalogXmin = b.ConfirmedFlushLSN, b.RestartLSN, b.CatalogXmin
	a.Active, a.InactiveSince, a.WALStatus = b.Active, b.InactiveSince, b.WALStatus
	return a == b
}
