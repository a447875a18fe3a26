package chaos

import (
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/rig"
)

// Who is the primary, who the standby, and what leads to the primary.

func (w *world) roles() (primary, standby *rig.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.primary, w.standby
}

// swap makes the promoted node the primary. Its standby is the node that was the
// primary, or in a cascade the next one, if there is one.
func (w *world) swap(promoted *rig.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.primary, w.standby = promoted, w.primary
	if w.schedule.Cascade {
		w.standby = w.pair.C
	}
}

// promoted is the node that a phase which ends so makes the primary.
func (w *world) promoted(end End) *rig.Node {
	_, standby := w.roles()
	if end == FailoverToLast {
		return w.pair.C
	}
	return standby
}

// standbys are all nodes that must be ready: in a cascade the last one, too.
func (w *world) standbys() []*rig.Node {
	_, standby := w.roles()
	if w.schedule.Cascade && standby != w.pair.C {
		return []*rig.Node{standby, w.pair.C}
	}
	return []*rig.Node{standby}
}

// relayFlags are more flags of every relay.
func (w *world) relayFlags() []string {
	if !w.schedule.HoldBack {
		return nil
	}
	return []string{"--refuse-tls", "--hold-back", "ANY 1 (a, b)"} // one of them is the primary itself
}

// turnTo makes a node's server the one that applications and subscriptions find; nil
// is none.
func (w *world) turnTo(n *rig.Node) {
	var s *cluster.Server
	if n != nil {
		s = n.Server
	}
	w.serving.Store(s)
	w.legs.subscriber.Blackhole(s == nil)
	switch {
	case s == nil:
	case w.schedule.HoldBack:
		w.legs.subscriber.SetTarget(w.pair.Front(n))
	default:
		w.legs.subscriber.SetTarget(s.Addr())
	}
	w.legs.subscriber.Cut()
}
