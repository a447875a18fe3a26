package decoder

import (
	"slices"
	"sync"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// inbox holds the newest slot message and forgets the ones before it. Whoever
// delivers never waits: a slow helper costs staleness, never memory, and never
// delays WAL.
type inbox struct {
	mu     sync.Mutex // held for a few assignments only
	newest Upstream
	epochs []epochMark // the one heard last comes last
	wake   chan struct{}
}

// epochMark is how far one epoch has been heard.
type epochMark struct {
	epoch    uint64
	sequence uint64
}

// maxEpochs is how many epochs are remembered. Relays that take turns in front of
// one upstream keep their epochs, and each may come again.
const maxEpochs = 32

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put takes a message in, unless one like it or a later one has been here.
func (b *inbox) put(m *protocol.SlotMessage, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.epochs, func(e epochMark) bool { return e.epoch == m.Epoch })
	if at >= 0 && m.Sequence <= b.epochs[at].sequence || overtaken(m, b.newest.Message, at >= 0) {
		return
	}
	switch {
	case at >= 0:
		b.epochs = slices.Delete(b.epochs, at, at+1)
	case len(b.epochs) == maxEpochs:
		b.epochs = slices.Delete(b.epochs, 0, 1)
	}
	b.epochs = append(b.epochs, epochMark{m.Epoch, m.Sequence})
	b.newest.Message, b.newest.Arrived, b.newest.NoRelay = m, now, false
	b.newest.Trouble, b.newest.TroubleDetail = ReasonNone, ""
	b.signal()
}

// overtaken reports whether another epoch has already told of a later moment. In
// one life of the upstream its WAL position says so. Taken for news, such a message
// would make every slot that has moved since look like a new incarnation (I-14).
// Between two lives only clocks can tell, and are asked only about an epoch that
// has been heard before: one that is new is later.
func overtaken(m, newest *protocol.SlotMessage, known bool) bool {
	if newest == nil || newest.Epoch == m.Epoch || newest.SystemIdentifier != m.SystemIdentifier ||
		newest.TimelineID != m.TimelineID {
		return false
	}
	if newest.PostmasterStartTime != m.PostmasterStartTime {
		return known && m.CaptureTime < newest.CaptureTime
	}
	return m.CaptureLSN < newest.CaptureLSN || m.CaptureLSN == newest.CaptureLSN && m.CaptureTime < newest.CaptureTime
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

// trouble notes why no message comes.
func (b *inbox) trouble(why Reason, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest.Trouble != why || b.newest.TroubleDetail != detail {
		b.newest.Trouble, b.newest.TroubleDetail = why, detail
		b.signal()
	}
}

// system notes the upstream's system identifier.
func (b *inbox) system(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest.System != id {
		b.newest.System = id
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
