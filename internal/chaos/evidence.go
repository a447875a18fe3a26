package chaos

import (
	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/protocol"
)

// Evidence is all that a round has found out. Judge looks at nothing else.
type Evidence struct {
	History map[string]bank.Journal                               // of the last primary, by database
	Outcome func(database string, transaction int64) bank.Outcome // what its writer was told

	Failovers     int  // phases that ended with the death of the primary
	HeldBack      bool // what consumers got was held back until a standby had it
	Streams       []Stream
	Subscriptions []Subscription
	Moves         []Move

	// Forgotten are commits that were acknowledged before a switchover and were not
	// on the new primary after it.
	Forgotten []int64

	Stuck []string // what did not come to be in time
}

// Stream is what the consumer of a test_decoding slot got.
type Stream struct {
	Slot     string
	Database string
	From     int64  // it must get every transaction with a higher number
	Dropped  bool   // its slot was dropped on purpose, so that it need not get anything
	Refused  string // the server's words when it said that there is no such slot
	Got      bank.Delivered
}

// Subscription is what a subscription got.
type Subscription struct {
	Slot        string
	Database    string
	Refused     string
	Journal     bank.Journal // of the subscriber
	Differences []bank.Difference
}

// Move is what a promotion made of one slot.
type Move struct {
	Slot   string
	Phase  int
	Ready  bool // its helper had said so last
	Usable bool // it is on the new primary

	At        protocol.LSN // of the slot on the new primary, when its consumer comes
	Known     protocol.LSN // how far its consumer was, as its helper had said; 0: that is no measure
	Switch    protocol.LSN // where the new timeline begins; 0: not asked
	Confirmed protocol.LSN // how far its consumer really was
}

// Again is how much WAL the consumer is sent a second time, in bytes.
func (m *Move) Again() protocol.LSN {
	if !m.Usable || m.Switch == 0 {
		return 0
	}
	return atLeast0(min(m.Confirmed, m.Switch), m.At)
}

// Bound is how much of that it may be: what its helper had not said it knew of.
func (m *Move) Bound() protocol.LSN {
	if m.Known == 0 {
		return m.Again()
	}
	return atLeast0(min(m.Confirmed, m.Switch), min(m.Known, m.Switch))
}

func atLeast0(a, b protocol.LSN) protocol.LSN {
	if a < b {
		return 0
	}
	return a - b
}
