package relay

import (
	"sync"
	"sync/atomic"

	"github.com/slotferry/slotferry/protocol"
)

// holdHub puts together for all logical sessions what is known of the standbys,
// and wakes them when that changes.
type holdHub struct {
	view   atomic.Pointer[holdView]
	counts holdCounts

	// mu guards what follows. It is never asked for with a session's mu held.
	mu      sync.Mutex
	cfg     HoldBack
	read    *walsenders               // nil: none yet
	ending  bool                      // the upstream shuts down
	relayed map[uint32]relayedStandby // by the pid of their walsender
	streams map[*heldStream]bool
	slots   []HoldSlot
}

// holdCounts are counters that metrics read.
type holdCounts struct{ letGo, ended atomic.Uint64 }

// relayedStandby is a standby whose replication passes through this relay.
type relayedStandby struct {
	Standby

	session uint64
	gone    bool // the session has ended; kept until the upstream says so, too
}

func newHoldHub(cfg HoldBack) *holdHub {
	b := &holdHub{cfg: cfg, relayed: map[uint32]relayedStandby{}, streams: map[*heldStream]bool{}}
	b.update()
	return b
}

// set changes what streams wait for, those that there are, too.
func (b *holdHub) set(cfg HoldBack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg = cfg
	b.update()
	for s := range b.streams {
		s.signal()
	}
}

// update makes a new view and wakes the streams that it lets go on. Called with mu
// held.
func (b *holdHub) update() {
	v := newHoldView(b.cfg.Standbys, b.read, b.relayed, b.ending)
	v.exempt, v.timeout = b.cfg.Exempt, b.cfg.Timeout
	b.view.Store(v)
	for s := range b.streams {
		s.changed(v)
	}
}

// walsendersRead implements walsenderWatcher.
func (b *holdHub) walsendersRead(w *walsenders) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ours := map[uint32]bool{}
	for s := range b.streams {
		ours[s.pid.Load()] = true
	}
	b.slots = holdSlots(b.slots, w, ours, b.cfg.Exempt)
	b.read, b.ending = w, false
	b.update()
	for pid, r := range b.relayed {
		if r.gone && !b.view.Load().listed[pid] {
			delete(b.relayed, pid)
		}
	}
}

// upstreamEnding implements walsenderWatcher.
func (b *holdHub) upstreamEnding() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ending {
		b.ending = true
		b.update()
	}
}

// began notes a standby's physical stream through this relay. It has said nothing
// of what it has flushed yet.
func (b *holdHub) began(pid uint32, session uint64, s Standby) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.relayed[pid] = relayedStandby{Standby: s, session: session}
	b.update()
}

// flushed notes what a standby has flushed; InvalidLSN after the end of a stream.
func (b *holdHub) flushed(pid uint32, session uint64, lsn protocol.LSN) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.relayed[pid]; ok && r.session == session && r.Flush != lsn {
		r.Flush = lsn
		b.relayed[pid] = r
		b.update()
	}
}

// ended notes the end of a standby's session: at once it counts for nothing.
func (b *holdHub) ended(pid uint32, session uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.relayed[pid]
	switch {
	case !ok || r.session != session:
		return
	case b.view.Load().listed[pid]:
		r.gone, r.Flush = true, protocol.InvalidLSN
		b.relayed[pid] = r
	default:
		delete(b.relayed, pid)
	}
	b.update()
}

// add has a stream woken until cancel is called.
func (b *holdHub) add(s *heldStream) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[s] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.streams, s)
	}
}
