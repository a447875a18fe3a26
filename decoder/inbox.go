package decoder

import (
	"sync"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// inbox holds the newest slot message and forgets the ones before it. Whoever
// delivers never waits: a slow helper costs staleness, never memory, and never
// delays WAL.
type inbox struct {
	mu      sync.Mutex // held for a few assignments only
	newest  Upstream
	retired []uint64 // epochs that another epoch has replaced, newest last
	wake    chan struct{}
}

// maxRetired is how many replaced epochs are remembered. A message of one of
// them is late or replayed, whatever its sequence says.
const maxRetired = 32

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put takes a message in, unless it is older than what is here.
func (b *inbox) put(m *protocol.SlotMessage, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.newest.Message
	if !m.NewerThan(old) {
		return
	}
	for _, e := range b.retired {
		if e == m.Epoch {
			return
		}
	}
	if old != nil && old.Epoch != m.Epoch {
		b.retired = append(b.retired, old.Epoch)
		if len(b.retired) > maxRetired {
			b.retired = b.retired[1:]
		}
	}
	b.newest.Message, b.newest.Arrived, b.newest.NoRelay = m, now, false
	b.signal()
}

// noRelay notes that the upstream address answers, but not as a relay.
func (b *inbox) noRelay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.newest.NoRelay {
		b.newest.NoRelay = true
		b.signal()
	}
}

// get returns what is newest.
func (b *inbox) get() Upstream {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
