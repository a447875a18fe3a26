package decoder

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/slotferry/slotferry/protocol"
)

// actions are all that can happen.
func (m *model) actions() map[string]func(*rapid.T) {
	name := func(t *rapid.T) string { return rapid.SampledFrom(modelNames).Draw(t, "name") }
	some := func(t *rapid.T, from, to protocol.LSN) protocol.LSN {
		return protocol.LSN(rapid.Uint64Range(uint64(from), uint64(max(from, to))).Draw(t, "lsn"))
	}
	p, s, h := m.primary, m.standby, m.helper
	slow := func(t *rapid.T) { m.slowSecond(t, name(t)) }
	healthy := func(t *rapid.T) { m.slowSecond(t, name(t)); m.finishSteps(t) }
	return map[string]func(*rapid.T){
		// What is usual comes more often.
		"healthy second": healthy, "healthy second 2": healthy, "healthy second 3": healthy, "healthy second 4": healthy,
		"healthy second 5": healthy, "healthy second 6": healthy, "healthy second 7": healthy, "healthy second 8": healthy,

		// Steps that were begun before are still under way.
		"slow second": slow, "slow second 2": slow,

		"write":  func(t *rapid.T) { m.primary.end += some(t, 1, 0x200) },
		"vacuum": func(*rapid.T) { m.primary.prune() },
		"checkpoint": func(*rapid.T) {
			m.primary.saveSlots()
			m.primary.saved = m.primary.feedback
		},
		"create slot": func(t *rapid.T) {
			n := name(t)
			if m.primary.slots[n] != nil {
				return
			}
			m.create(n, m.primary.end, rapid.Bool().Draw(t, "creating"))
		},
		"slot is born": func(t *rapid.T) {
			if x := m.primary.slots[name(t)]; x != nil && x.creating {
				x.creating = false
				x.confirmed, x.saved, x.truth = m.primary.end, m.primary.end, m.primary.end
			}
		},
		"create slot again": func(t *rapid.T) {
			n := name(t)
			if m.primary.slots[n] != nil {
				m.create(n, m.primary.end, rapid.Bool().Draw(t, "creating"))
			}
		},
		"create slot again, by a copy of an older one": func(t *rapid.T) {
			n := name(t)
			if x := m.primary.slots[n]; x != nil && !x.creating && x.invalid == "" {
				m.create(n, some(t, x.confirmed-min(x.confirmed, 0x300), x.confirmed), false)
				m.primary.slots[n].lowered = true
				m.excuse(n)
			}
		},
		"drop slot": func(t *rapid.T) { delete(m.primary.slots, name(t)) },
		"invalidate slot": func(t *rapid.T) {
			if x := m.primary.slots[name(t)]; x != nil && !x.creating {
				x.invalid = "wal_removed"
			}
		},
		"subscriber confirms": func(t *rapid.T) {
			if x := m.primary.slots[name(t)]; x != nil && !x.creating && x.invalid == "" {
				x.confirmed = max(x.confirmed, some(t, x.confirmed, m.primary.end))
				x.truth = max(x.truth, x.confirmed)
			}
		},
		"primary crashes": func(t *rapid.T) {
			forgets := rapid.Bool().Draw(t, "forgets feedback, and vacuums before it is there again")
			if forgets {
				m.primary.saveSlots() // LogicalConfirmReceivedLocation: no checkpoint needed
				m.primary.saved = 0
			}
			m.crash(t, some)
			if forgets {
				m.primary.prune()
				m.reach()
				s.sendFeedback(m.primary)
				m.deliver()
			}
		},
		"fail over upstream": func(t *rapid.T) { m.failOver(t, some) },
		"relay restarts":     func(*rapid.T) { m.epoch, m.sequence = m.epoch+10, 0 },
		"stream": func(t *rapid.T) {
			if s.connected && s.timeline == m.primary.timeline {
				s.received = max(s.received, some(t, s.received, m.primary.end))
			}
		},
		"replay":        func(t *rapid.T) { s.replayTo(some(t, s.replay, s.received), m.primary.prunes) },
		"feedback":      func(*rapid.T) { s.sendFeedback(m.primary) },
		"feedback off":  func(*rapid.T) { s.feedback = false },
		"feedback on":   func(*rapid.T) { s.feedback = true },
		"disconnect":    func(*rapid.T) { s.connected = false },
		"reconnect":     func(*rapid.T) { m.follow() },
		"standby stops": func(*rapid.T) { s.restart(false, 0) },
		"standby crashes": func(t *rapid.T) {
			s.restart(true, some(t, 0, 0x100))
		},
		"restartpoint": func(*rapid.T) { s.restartpoint() },
		"somebody consumes on the standby": func(t *rapid.T) {
			if l := s.slots[name(t)]; l != nil && l.invalid == "" && s.replay > l.confirmed {
				l.confirmed, l.tampered = some(t, l.confirmed, s.replay), true
			}
		},
		"somebody makes a slot on the standby": func(t *rapid.T) {
			n := name(t)
			// Under a row of ours nobody could tell it from ours.
			if _, recorded := h.rows[n]; recorded || h.isBusy(n) || s.slots[n] != nil {
				return
			}
			s.slots[n] = &modelLocal{confirmed: s.replay, saved: s.replay, xmin: xminAt(s.replay), foreign: true, tampered: true}
		},
		"somebody drops a slot on the standby": func(t *rapid.T) { delete(s.slots, name(t)) },
		"send":                                 func(*rapid.T) { m.send(); m.note(m.network[len(m.network)-1]) },
		"arrive": func(t *rapid.T) {
			if len(m.network) > 0 {
				h.inbox.put(rapid.SampledFrom(m.network).Draw(t, "message"), m.now)
			}
		},
		"newest arrives": func(*rapid.T) { m.deliver() },
		"old primary talks": func(*rapid.T) {
			if m.oldServer != nil {
				msg := m.oldServer.message(m.oldEpoch, m.sequence+1000, m.now.UnixMicro())
				modelBirths[msg] = map[string]int{}
				h.inbox.put(msg, m.now)
			}
		},
		"message of another system": func(*rapid.T) {
			msg := p.message(m.epoch+1, 1, m.now.UnixMicro())
			msg.SystemIdentifier, msg.Slots = 7, nil
			h.inbox.put(msg, m.now)
		},
		"look": func(t *rapid.T) { m.look(t.Fatalf) },
		"step is taken": func(t *rapid.T) {
			for i := range h.busy {
				if !h.busy[i].taken {
					m.take(t, &h.busy[i])
					return
				}
			}
		},
		"steps settle": func(*rapid.T) { h.settle(m.now) },
		"look, take, settle": func(t *rapid.T) {
			m.look(t.Fatalf)
			m.finishSteps(t)
		},
		"anchor is born": func(*rapid.T) { h.finishAnchor(m.now) },
		"ledger keeps the tracks": func(*rapid.T) { // saveCheckpoint
			for n, row := range h.rows {
				if t, ok := h.tracks[n]; ok && !row.Released && t.Confirmed != 0 {
					row.remember(t)
					h.rows[n] = row
				}
			}
		},
		"kill helper": func(t *rapid.T) {
			for i := range h.busy { // what was sent to the server may still be done
				if !h.busy[i].taken && rapid.Bool().Draw(t, "done") {
					m.take(t, &h.busy[i])
				}
			}
			h.kill()
		},
		"time passes": func(t *rapid.T) {
			m.now = m.now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "seconds")) * time.Second)
		},
	}
}

// crash is one of the primary, which comes back with what was on its disk.
func (m *model) crash(t *rapid.T, some func(*rapid.T, protocol.LSN, protocol.LSN) protocol.LSN) {
	m.newLife()
	p := m.primary
	p.postmaster++
	for _, n := range p.names() {
		x := p.slots[n]
		if x.creating {
			delete(p.slots, n)
			continue
		}
		x.confirmed = some(t, x.saved, x.confirmed)
		x.saved = x.confirmed
	}
	p.lost = p.lost || p.feedback != 0 && p.saved == 0
	p.feedback = p.saved
	if rapid.Bool().Draw(t, "relay too") {
		m.epoch, m.sequence = m.epoch+10, 0
	}
}

// slowSecond is one in which nothing goes wrong that has not gone wrong before, but
// no step comes to an end.
func (m *model) slowSecond(t *rapid.T, name string) {
	m.now = m.now.Add(time.Second)
	m.primary.end += 0x40
	if x := m.primary.slots[name]; x != nil && !x.creating && x.invalid == "" {
		x.confirmed = max(x.confirmed, m.primary.end-0x20)
		x.truth = max(x.truth, x.confirmed)
	}
	if m.reach() {
		m.standby.replayTo(m.primary.end-0x10, m.primary.prunes)
		m.standby.sendFeedback(m.primary)
		m.deliver()
	}
	m.helper.finishAnchor(m.now)
	m.look(t.Fatalf)
}

// reach has the standby receive what there is, if it can.
func (m *model) reach() bool {
	if !m.standby.connected || m.standby.timeline != m.primary.timeline {
		return false
	}
	m.standby.received = m.primary.end
	return true
}

// deliver brings the helper a message of now.
func (m *model) deliver() {
	m.send()
	last := m.network[len(m.network)-1]
	m.note(last)
	m.helper.inbox.put(last, m.now)
}

// finishSteps takes all steps under way and settles them.
func (m *model) finishSteps(t *rapid.T) {
	for i := range m.helper.busy {
		if !m.helper.busy[i].taken {
			m.take(t, &m.helper.busy[i])
		}
	}
	m.helper.settle(m.now)
}

func (m *model) take(t *rapid.T, b *modelStep) {
	if wrong := m.helper.take(b); wrong != "" {
		t.Fatalf("%v: %s", b.step, wrong)
	}
	u, l := m.primary.slots[b.step.Slot], m.standby.slots[b.step.Slot]
	if b.step.Kind == StepCopy && b.life != m.primary.postmaster && u != nil && l != nil && u.lowered && l.birth != u.birth {
		l.excused = true // copied on what the life before said
	}
}

func (m *model) create(name string, at protocol.LSN, creating bool) {
	m.primary.births++
	x := &modelSlot{birth: m.primary.births, confirmed: at, saved: at, truth: at, creating: creating}
	m.primary.slots[name] = x
}

// failOver makes another server the upstream: it has received at least what our
// standby has, and of the slots what was ferried to it.
func (m *model) failOver(t *rapid.T, some func(*rapid.T, protocol.LSN, protocol.LSN) protocol.LSN) {
	p := m.primary
	at := some(t, max(m.standby.received, p.end-min(p.end, 0x200)), p.end)
	if m.standby.timeline != p.timeline {
		return // it could not follow
	}
	m.newLife()
	old := *p
	old.slots = maps.Clone(old.slots)
	m.oldServer, m.oldEpoch = &old, m.epoch
	p.switches = append(slices.Clone(p.switches), HistoryEntry{p.timeline, at})
	p.end, p.feedback, p.saved, p.lost = at, 0, 0, true
	p.timeline++
	p.postmaster += 1000
	p.prunes = slices.DeleteFunc(slices.Clone(p.prunes), func(x modelPrune) bool { return x.at > at })
	for _, n := range p.names() {
		x := *p.slots[n]
		p.slots[n] = &x
		x.truth = min(x.truth, at)
		if x.creating || rapid.Bool().Draw(t, "missing") {
			delete(p.slots, n)
			continue
		}
		x.confirmed = some(t, min(x.saved, at)-min(min(x.saved, at), 0x100), min(x.confirmed, at))
		x.saved = x.confirmed
		p.slots[n] = &x
	}
	m.standby.connected = false
	m.epoch, m.sequence = m.epoch+10, 0
}
