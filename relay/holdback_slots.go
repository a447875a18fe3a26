package relay

import "github.com/slotferry/slotferry/protocol"

// HoldConsumer says how a logical slot of the upstream is consumed.
type HoldConsumer string

// The consumers.
const (
	ConsumerNone      HoldConsumer = ""          // nobody since this relay has looked
	ConsumerRelay     HoldConsumer = "relay"     // through this relay: held back, unless the slot is exempt
	ConsumerWalsender HoldConsumer = "walsender" // by a replication connection that does not pass through this relay
	ConsumerSQL       HoldConsumer = "sql"       // by SQL functions, which no relay can hold back
)

// HoldSlot is a logical slot of the upstream, as far as hold-back is concerned.
type HoldSlot struct {
	Name              string       `json:"slot_name"`
	Consumer          HoldConsumer `json:"consumer"`
	PID               uint32       `json:"pid"` // of the backend that has it in use; 0: none
	Exempt            bool         `json:"exempt"`
	ConfirmedFlushLSN protocol.LSN `json:"confirmed_flush_lsn"`

	// Ahead is how much WAL the subscriber has confirmed and the standbys that count
	// have not flushed: what it has more than a new primary would.
	Ahead uint64 `json:"ahead_bytes"`
}

// NotHeldBack says how a slot is consumed that hold-back has no hand in, to follow
// its name; "" for one that has.
func (s *HoldSlot) NotHeldBack() string {
	switch {
	case s.Exempt:
		return "is exempt"
	case s.Consumer == ConsumerWalsender:
		return "is consumed by a connection that bypasses this relay"
	case s.Consumer == ConsumerSQL:
		return "is consumed by SQL functions, which cannot be held back"
	}
	return ""
}

// holdSlots says how each slot is consumed: by who has it in use, and, where
// nobody has, by what was said before and by its position, which moves by itself
// for no one. ours are the walsenders of this relay's logical sessions.
func holdSlots(before []HoldSlot, read *walsenders, ours map[uint32]bool, exempt []string) []HoldSlot {
	known := map[string]HoldSlot{}
	for _, s := range before {
		known[s.Name] = s
	}
	walsender := map[uint32]bool{}
	for _, w := range read.list {
		walsender[w.pid] = true
	}
	list := make([]HoldSlot, 0, len(read.slots))
	for _, slot := range read.slots {
		old, seen := known[slot.name]
		s := HoldSlot{
			Name: slot.name, PID: slot.active, Exempt: matchesAny(exempt, slot.name),
			ConfirmedFlushLSN: slot.confirmed, Consumer: old.Consumer,
		}
		switch {
		case slot.active != 0 && ours[slot.active]:
			s.Consumer = ConsumerRelay
		case slot.active != 0 && walsender[slot.active]:
			s.Consumer = ConsumerWalsender
		case slot.active != 0, seen && old.PID == 0 && slot.confirmed > old.ConfirmedFlushLSN:
			s.Consumer = ConsumerSQL
		}
		// On a standby the helper itself creates and advances slots by SQL.
		if s.Consumer == ConsumerSQL && read.inRecovery {
			s.Consumer = old.Consumer
		}
		list = append(list, s)
	}
	return list
}
