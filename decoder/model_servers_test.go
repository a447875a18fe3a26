package decoder

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slotferry/slotferry/protocol"
)

// The model is two servers that behave as PostgreSQL does where slots are
// concerned, and no more. Positions count WAL bytes; every transaction a slot
// could need lies at some position, so "nothing is lost" is "the slot is not past
// what its subscriber has confirmed".

// modelPrimary is the upstream.
type modelPrimary struct {
	timeline   uint32
	postmaster int64
	end        protocol.LSN
	slots      map[string]*modelSlot
	prunes     []modelPrune // WAL records that remove catalog rows
	feedback   uint32       // catalog_xmin of the physical slot, 0: NULL
	saved      uint32       // the same, as it is on disk
	lost       bool         // it was lost in a crash, or never there, and no feedback has brought it since
	switches   History      // of the current timeline
	births     int
}

// modelSlot is a logical slot of the upstream with its subscriber.
type modelSlot struct {
	birth     int          // tells incarnations of one name apart
	lowered   bool         // born behind where its namesake had been
	confirmed protocol.LSN // confirmed_flush_lsn as the server has it
	saved     protocol.LSN // as it is on disk
	truth     protocol.LSN // what the subscriber really has
	creating  bool
	invalid   string
}

type modelPrune struct {
	at      protocol.LSN
	horizon uint32 // newest xid whose rows are gone
	life    int64  // postmaster start of the primary that wrote it, without the standby's catalog_xmin; 0: with it
}

// modelLocal is a logical slot of the standby, and what the model knows of it
// that no server does.
type modelLocal struct {
	confirmed, saved protocol.LSN
	xmin             uint32
	invalid          string

	foreign  bool // somebody made it by hand
	birth    int  // incarnation of the upstream's slot it is for
	tampered bool // somebody consumed it
	excused  bool // its upstream slot was made again lower, and the server restarted, unseen
}

// modelStandby is the standby.
type modelStandby struct {
	received  protocol.LSN
	replay    protocol.LSN
	restored  bool // something has been replayed since the start
	timeline  uint32
	history   History // of timeline
	connected bool
	feedback  bool // hot_standby_feedback
	slots     map[string]*modelLocal
	anchor    *modelLocal
}

// xminAt is the oldest xid a slot at that position needs catalog rows for.
func xminAt(lsn protocol.LSN) uint32 { return 100 + uint32(lsn) }

func (p *modelPrimary) names() []string { return slices.Sorted(maps.Keys(p.slots)) }

// saveSlots writes the logical slots to disk.
func (p *modelPrimary) saveSlots() {
	for _, s := range p.slots {
		s.saved = s.confirmed
	}
}

// prune vacuums the catalogs as far as slots and feedback allow.
func (p *modelPrimary) prune() {
	limit := xminAt(p.end)
	for _, s := range p.slots {
		if s.invalid == "" {
			limit = min(limit, xminAt(s.saved))
		}
	}
	if p.feedback != 0 {
		limit = min(limit, p.feedback)
	}
	p.end++
	x := modelPrune{at: p.end, horizon: limit - 1}
	if p.lost {
		x.life = p.postmaster
	}
	p.prunes = append(p.prunes, x)
}

// message is what the relay would send now.
func (p *modelPrimary) message(epoch, sequence uint64, now int64) *protocol.SlotMessage {
	m := &protocol.SlotMessage{
		Epoch: epoch, Sequence: sequence, SystemIdentifier: 1, TimelineID: p.timeline, PostmasterStartTime: p.postmaster,
		ServerVersionNum: 180004, CaptureLSN: p.end, CaptureTime: now, Interval: 1e6,
		PhysicalSlots: []protocol.PhysicalSlot{{Name: "standby1", Active: true, Xmin: 1, CatalogXmin: p.feedback}},
	}
	for _, name := range p.names() {
		s := p.slots[name]
		u := protocol.SlotState{
			Name: name, Database: "app", Plugin: "pgoutput", RestartLSN: s.confirmed, ConfirmedFlushLSN: s.confirmed,
			InvalidationReason: s.invalid,
		}
		if s.creating {
			u.ConfirmedFlushLSN = 0
		}
		m.Slots = append(m.Slots, u)
	}
	return m
}

// replayTo replays WAL. A prune record invalidates what needed its rows, and ends
// the session of an anchor that did.
func (s *modelStandby) replayTo(lsn protocol.LSN, prunes []modelPrune) {
	for _, x := range prunes {
		if x.at <= s.replay || x.at > lsn {
			continue
		}
		for _, l := range s.slots {
			if l.xmin <= x.horizon && l.invalid == "" {
				l.invalid = "rows_removed"
			}
		}
		if s.anchor != nil && s.anchor.xmin <= x.horizon {
			s.anchor = nil
		}
	}
	s.restored = s.restored || lsn > s.replay
	s.replay = max(s.replay, lsn)
}

// sendFeedback is a HotStandbyFeedback message that arrives.
func (s *modelStandby) sendFeedback(p *modelPrimary) {
	if !s.connected || s.timeline != p.timeline {
		return
	}
	p.feedback = 0
	if !s.feedback {
		return
	}
	locals := slices.Collect(maps.Values(s.slots))
	if s.anchor != nil {
		locals = append(locals, s.anchor)
	}
	for _, l := range locals {
		if l.invalid == "" && (p.feedback == 0 || l.xmin < p.feedback) {
			p.feedback = l.xmin
		}
	}
	p.lost = p.lost && p.feedback == 0
}

// advance is pg_replication_slot_advance in recovery.
func (s *modelStandby) advance(l *modelLocal, target protocol.LSN) error {
	target = min(target, s.replay)
	switch {
	case l.invalid != "":
		return fmt.Errorf("can no longer get changes: %s", l.invalid)
	case target < l.confirmed:
		return fmt.Errorf("cannot advance to %v, minimum is %v", target, l.confirmed)
	}
	l.confirmed = target
	l.xmin = max(l.xmin, xminAt(target))
	return nil
}

// restartpoint writes the slots to disk.
func (s *modelStandby) restartpoint() {
	for _, l := range s.slots {
		l.saved = l.confirmed
	}
}

// restart stops and starts the standby. After a crash slots are as they were on
// disk, and replay begins further back.
func (s *modelStandby) restart(crash bool, back protocol.LSN) {
	s.anchor, s.restored = nil, false
	for _, l := range s.slots {
		if crash {
			l.confirmed = l.saved
		}
		l.saved = l.confirmed
	}
	if crash {
		s.replay -= min(back, s.replay)
	}
}

// view is what the helper's look at the standby finds.
func (s *modelStandby) view(anchor string) Standby {
	v := newHealthyStandby()
	v.HotStandbyFeedback = s.feedback
	v.Receive, v.Replay = s.received, s.replay
	if !s.restored {
		v.Replay = 0
	}
	v.ReceivedTLI = 0
	if s.connected {
		v.ReceivedTLI = s.timeline
		v.HistoryTLI, v.History = s.timeline, s.history
	}
	add := func(name string, l *modelLocal, temporary bool) {
		x := LocalSlot{Temporary: temporary}
		x.Name, x.Database, x.Plugin = name, "app", "pgoutput"
		x.ConfirmedFlushLSN, x.RestartLSN, x.CatalogXmin, x.InvalidationReason = l.confirmed, l.saved, l.xmin, l.invalid
		v.Slots = append(v.Slots, x)
	}
	for _, name := range slices.Sorted(maps.Keys(s.slots)) {
		add(name, s.slots[name], false)
	}
	if s.anchor != nil {
		add(anchor, s.anchor, true)
	}
	sortSlots(v.Slots)
	return v
}
