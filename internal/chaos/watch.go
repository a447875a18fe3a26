package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/rig"
	"github.com/slotferry/slotferry/protocol"
)

// watchEvery is how often the standby's helper is asked.
const watchEvery = 150 * time.Millisecond

// watch remembers what the standby's helper said last of each slot: by that its
// promotion is measured.
type watch struct {
	mu      sync.Mutex
	node    *rig.Node                         // that is watched; nil: nobody yet
	said    map[string]decoder.SlotStatusJSON // when all was well but for single slots
	measure bool                              // what it said of positions still counts
}

// run asks until ctx ends. A helper that does not answer has said nothing, and so
// has one to which something is the matter with all slots: the upstream may be dead
// or cut off, and that takes nothing from a slot that was ready.
func (w *watch) run(ctx context.Context, n *rig.Node) {
	w.mu.Lock()
	w.node = n
	w.mu.Unlock()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if st, err := n.Status(ctx); err == nil && st.Role == decoder.RoleStandby {
			w.take(st)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// takeOf takes what the helper of a node has said, if that is the one watched.
func (w *watch) takeOf(n *rig.Node, st *decoder.Status) {
	w.mu.Lock()
	watched := w.node == n
	w.mu.Unlock()
	if watched {
		w.take(st)
	}
}

func (w *watch) take(st *decoder.Status) {
	if !st.Upstream.Fresh || st.Reason != decoder.ReasonNone {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.measure = true
	w.said = map[string]decoder.SlotStatusJSON{}
	for _, s := range st.Slots {
		w.said[s.Name] = s
	}
}

// forget is for when the helper, or the standby, has been killed: what it knew of
// its subscribers, or where its slots were, is no measure any more. A slot that was
// ready still has to be there.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.measure = false
}

// reset is for when there is another standby, of which nobody has said anything.
func (w *watch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said, w.measure = nil, false
}

// ready reports whether a slot was ready when the helper was last heard.
func (w *watch) ready(slot string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, known := w.said[slot]
	return known && s.State == decoder.StateReady
}

// nothing reports whether there was no slot when the helper was last heard.
func (w *watch) nothing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said != nil && len(w.said) == 0
}

// known returns how far a slot's subscriber was as the helper said it, InvalidLSN
// when it said nothing that counts.
func (w *watch) known(slot string) protocol.LSN {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.said[slot]; w.measure && s.State == decoder.StateReady {
		return s.Upstream
	}
	return protocol.InvalidLSN
}
