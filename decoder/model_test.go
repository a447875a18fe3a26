package decoder

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotferry/slotferry/protocol"
)

// model is the primary, the standby, the network between relay and helper, and
// the helper.
type model struct {
	now       time.Time
	primary   *modelPrimary
	standby   *modelStandby
	helper    *modelHelper
	epoch     uint64
	sequence  uint64
	oldEpoch  uint64
	oldServer *modelPrimary           // the primary that was failed over from, still talking
	network   []*protocol.SlotMessage // sent, and not lost yet; any may arrive, and again
	births    map[string]int          // incarnation of each slot in the message that was seen last
	ready     map[string]protocol.LSN // what the last look called READY, with its L
	reached   map[string]int          // how often what came about
}

func newModel() *model {
	m := &model{
		now:     viewNow,
		primary: &modelPrimary{timeline: 1, postmaster: 1, end: 0x1000, slots: map[string]*modelSlot{}},
		standby: &modelStandby{
			received: 0x1000, replay: 0x1000, restored: true, timeline: 1, connected: true, feedback: true,
			slots: map[string]*modelLocal{},
		},
		epoch: 1, births: map[string]int{}, ready: map[string]protocol.LSN{}, reached: map[string]int{},
	}
	m.helper = &modelHelper{standby: m.standby, rows: map[string]LedgerRow{}}
	m.helper.start()
	return m
}

var modelNames = []string{"a", "b"}

// send is what the relay does every second.
func (m *model) send() {
	m.sequence++
	m.network = append(m.network, m.primary.message(m.epoch, m.sequence, m.now.UnixMicro()))
}

func (m *model) look(fail func(string, ...any)) (View, Decision) {
	v, d := m.helper.look(m.now)
	if h := m.helper.seen; h != nil {
		m.births = m.birthsOf(h)
	}
	m.checkReady(&v, &d, fail)
	for _, s := range d.Steps {
		m.reached[string(s.Kind)]++
	}
	m.helper.act(&v, &d, m.births)
	return v, d
}

// birthsOf says which incarnations a message tells of.
func (m *model) birthsOf(msg *protocol.SlotMessage) map[string]int { return modelBirths[msg] }

// modelBirths remembers what the wire does not say.
var modelBirths = map[*protocol.SlotMessage]map[string]int{}

// checkReady is I-2 and I-3 for whatever a look calls READY.
func (m *model) checkReady(v *View, d *Decision, fail func(string, ...any)) {
	clear(m.ready)
	for _, s := range d.Slots {
		if s.State != StateReady {
			continue
		}
		l, exists := m.standby.slots[s.Name]
		switch msg := v.Upstream.Message; {
		case !exists || l.invalid != "" || l.foreign:
			fail("%s is READY: not there, not valid or not ours", s.Name)
		case l.confirmed > s.Upstream:
			fail("%s is READY at %v past U %v", s.Name, l.confirmed, s.Upstream)
		case msg.TimelineID != m.standby.timeline || !m.standby.connected:
			fail("%s is READY by a message of timeline %d", s.Name, msg.TimelineID)
		case !m.standby.feedback:
			fail("%s is READY without hot_standby_feedback", s.Name)
		case msg.PhysicalSlots[0].CatalogXmin == 0 || msg.PhysicalSlots[0].CatalogXmin > l.xmin:
			fail("%s is READY with catalog_xmin %d, upstream holds %d", s.Name, l.xmin, msg.PhysicalSlots[0].CatalogXmin)
		case upstreamSays(msg, s.Name).InvalidationReason != "":
			fail("%s is READY and invalid upstream", s.Name)
		case m.now.Sub(v.Upstream.Arrived) > 5*time.Second:
			fail("%s is READY by a message that is %v old", s.Name, m.now.Sub(v.Upstream.Arrived))
		default:
			for _, x := range m.primary.prunes {
				if x.life != 0 && x.life <= msg.PostmasterStartTime && x.at > m.standby.replay && l.xmin <= x.horizon {
					fail("%s is READY with catalog_xmin %d, %d was vacuumed without protection at %v, and %v is replayed",
						s.Name, l.xmin, x.horizon, x.at, m.standby.replay)
				}
			}
		}
		m.ready[s.Name] = s.Local
		m.reached["ready"]++
	}
}

func upstreamSays(m *protocol.SlotMessage, name string) protocol.SlotState {
	i := slices.IndexFunc(m.Slots, func(u protocol.SlotState) bool { return u.Name == name })
	if i < 0 {
		return protocol.SlotState{}
	}
	return m.Slots[i]
}

// checkPromotion promotes a copy of the standby now, by the helper as it is and by
// one that was killed and starts with its ledger, and looks at what is there.
func (m *model) checkPromotion(fail func(string, ...any)) {
	end := m.standby.received // what has been received is replayed before a promotion ends
	for _, l := range m.standby.slots {
		if l.confirmed > end {
			return
		}
	}
	view := m.standby.view(m.helper.anchor.Name)
	view.InRecovery, view.ReceivedTLI = false, 0
	for i := range view.Slots { // the anchor's session has been ended
		if view.Slots[i].Temporary {
			view.Slots = slices.Delete(view.Slots, i, i+1)
			break
		}
	}
	history := append(slices.Clone(m.standby.history), HistoryEntry{m.standby.timeline, end})
	for i, e := range history { // a switch that was not reached has not been made
		if e.Switch > end {
			history = append(history[:i:i], HistoryEntry{e.TimelineID, end})
			break
		}
	}
	restarted := map[string]Track{}
	for name, row := range m.helper.rows {
		restarted[name] = row.track()
	}
	for who, tracks := range map[string]map[string]Track{"helper": m.helper.tracks, "restarted helper": restarted} {
		report := PlanPromotion(&PromotionView{
			Standby: view, Timeline: m.standby.timeline + 1, History: history, Owned: m.helper.rows, Tracks: tracks,
		})
		planned := map[string]PromotionSlot{}
		for _, p := range report.Slots {
			planned[p.Name] = p
		}
		for name, l := range m.standby.slots {
			m.checkPromoted(fail, who, name, l, planned[name], tracks[name], end)
		}
	}
}

func (m *model) checkPromoted(fail func(string, ...any), who, name string, l *modelLocal, p PromotionSlot, t Track, end protocol.LSN) {
	acts := p.Action == PromotionDrop || p.Action == PromotionAdvance
	if l.foreign {
		if acts {
			fail("%s: %s of %s, which is not ours", who, p.Action, name)
		}
		return
	}
	if l.tampered && p.Reason == ReasonNameClash {
		return // moved before its copy was settled: not told from somebody's own, and reported so
	}
	if acts {
		m.reached["promotion "+string(p.Action)+"s"]++
	}
	if p.Action == PromotionDrop {
		row := m.helper.rows[name]
		if _, ready := m.ready[name]; ready && l.invalid == "" && !l.tampered && row.Intent != IntentDrop && !t.Distrusted &&
			m.upstreamIs(name, l.birth) {
			fail("%s: drops READY slot %s at %v: %s; track %+v", who, name, l.confirmed, p.Reason, t)
		}
		return
	}
	at := l.confirmed
	if p.Action == PromotionAdvance {
		at = max(at, p.Target)
	}
	if at > end {
		fail("%s: %s ends at %v past the switch %v", who, name, at, end)
	}
	u, exists := m.primary.slots[name]
	// A slot of which a helper knows the ledger's U alone may have been made again since,
	// lower: that one may come too late to its rows, but is not moved past them.
	if exists && !u.creating && p.Action == PromotionAdvance && !t.Heard && l.confirmed <= u.truth && p.Target > u.truth {
		fail("%s: moves %s from %v to %v, its subscriber has %v", who, name, l.confirmed, p.Target, u.truth)
	}
	if l.invalid != "" || !exists || u.creating || l.excused || u.birth != m.births[name] && u.lowered {
		return // loud, nobody's, or made again lower and not heard of yet
	}
	if at > u.truth {
		fail("%s: %s %s ends at %v, its subscriber has %v (%s); track %+v", who, p.Action, name, at, u.truth, p.Reason, t)
	}
}

func (m *model) upstreamIs(name string, birth int) bool {
	u, ok := m.primary.slots[name]
	return ok && u.birth == birth && u.invalid == ""
}

// newLife is what a restart of the upstream makes undecidable.
func (m *model) newLife() {
	for name := range m.standby.slots {
		m.excuse(name)
	}
}

// excuse marks a slot made again at a lower position in a life of the upstream
// that neither helper nor ledger has heard of before, or gone from before a message
// told of it: that cannot be told from a crash (I-14).
func (m *model) excuse(name string) {
	u, l := m.primary.slots[name], m.standby.slots[name]
	if u == nil || l == nil || !u.lowered || l.birth == u.birth {
		return
	}
	row, life := m.helper.rows[name], m.helper.seen
	unheard := life == nil || life.PostmasterStartTime != m.primary.postmaster ||
		row.PostmasterStart != m.primary.postmaster
	l.excused = l.excused || unheard || m.births[name] != u.birth
}

// TestModel runs 1,000 random sequences. With the race detector one takes ten times
// as long and shows nothing more, so the 10,000 are TestEveryGuardIsTested's, in a
// program without it.
func TestModel(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		checks := "1000"
		if testing.Short() {
			checks = "200"
		}
		if err := flag.Set("rapid.checks", checks); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", f.DefValue)
	}
	reached := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		clear(modelBirths)
		m := newModel()
		m.settleDown() // a healthy beginning: short sequences then reach further
		m.create("a", m.primary.end, false)
		m.settleDown()
		actions := m.actions()
		actions[""] = func(t *rapid.T) { m.checkPromotion(t.Fatalf) }
		t.Repeat(actions)
		m.checkLiveness(t.Fatalf)
		for what, n := range m.reached {
			reached[what] += n
		}
	})
	t.Logf("reached %v", reached)
	for _, what := range []string{"ready", "copy", "advance", "drop", "adopt", "forget", "promotion advances", "promotion drops"} {
		if reached[what] == 0 {
			t.Errorf("no sequence came to %q: the model tests nothing of it", what)
		}
	}
}

// settleDown lets time pass while nothing goes wrong, until every slot is ready and
// nothing is left to do, or for long enough. It returns the last decision.
func (m *model) settleDown() Decision {
	var d Decision
	for range 15 {
		m.now = m.now.Add(3 * time.Second)
		for _, name := range m.primary.names() {
			s := m.primary.slots[name]
			s.creating = false
			if s.invalid == "" {
				s.truth = max(s.truth, m.primary.end)
				s.confirmed, s.saved = s.truth, s.truth
			}
		}
		m.primary.end++
		m.standby.connected, m.standby.feedback = true, true
		m.follow()
		m.standby.received = m.primary.end
		m.standby.replayTo(m.standby.received, m.primary.prunes)
		m.standby.restartpoint()
		m.standby.sendFeedback(m.primary)
		m.deliver()
		m.helper.finishAnchor(m.now)
		_, d = m.look(func(string, ...any) {})
		calm := len(d.Steps) == 0 && m.helper.anchor.Proven && len(m.ready) == len(m.primary.slots)
		for i := range m.helper.busy {
			if !m.helper.busy[i].taken {
				m.helper.take(&m.helper.busy[i])
			}
		}
		m.helper.settle(m.now)
		if calm && m.settled(&d) {
			break
		}
	}
	m.network = nil
	return d
}

// settled reports whether both sides have the same slots, and the helper no others.
func (m *model) settled(d *Decision) bool {
	for name := range m.standby.slots {
		if m.primary.slots[name] == nil {
			return false
		}
	}
	return len(d.Slots) == len(m.primary.slots) && len(m.helper.rows) == len(m.primary.slots)
}

// note remembers which incarnations the newest message tells of.
func (m *model) note(msg *protocol.SlotMessage) {
	births := map[string]int{}
	for name, s := range m.primary.slots {
		births[name] = s.birth
	}
	modelBirths[msg] = births
}

// checkLiveness: after a quiet while with everything healthy every slot is READY.
func (m *model) checkLiveness(fail func(string, ...any)) {
	m.settleDown()
	m.now = m.now.Add(othersWindow)
	d := m.settleDown()
	for _, name := range m.primary.names() {
		l := m.standby.slots[name]
		// Somebody else's slot that is invalid, or past the switch, needs hands.
		if m.primary.slots[name].invalid != "" ||
			l != nil && l.foreign && (l.invalid != "" || m.standby.timeline > 1 && l.confirmed > m.standby.history.LastSwitch()) {
			continue
		}
		if _, ready := m.ready[name]; !ready {
			fail("%s is not READY after a quiet time:\n%sstandby %+v\nrow %+v\ntrack %+v", name, printDecision(&d), l,
				m.helper.rows[name], m.helper.tracks[name])
		}
	}
	for name, l := range m.standby.slots {
		if _, exists := m.primary.slots[name]; !exists && !l.foreign {
			fail("%s is gone upstream and still here: %s", name, fmt.Sprint(slices.Sorted(maps.Keys(m.helper.rows))))
		}
	}
}

// follow connects the standby to the timeline the primary is on.
func (m *model) follow() {
	if m.standby.timeline != m.primary.timeline {
		m.standby.timeline, m.standby.history = m.primary.timeline, slices.Clone(m.primary.switches)
	}
	m.standby.connected = true
}
