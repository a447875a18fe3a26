package decoder

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// modelHelper is the helper's loop over the model's standby: the same decisions,
// tracks, inbox and ledger rows, with steps that are begun, taken and settled one
// at a time so that it can be killed between any two.
type modelHelper struct {
	standby *modelStandby
	rows    map[string]LedgerRow // on disk
	whole   Protection           // on disk

	// Lost in a kill.
	inbox  *inbox
	seen   *protocol.SlotMessage
	tracks map[string]Track
	anchor Anchor
	busy   []modelStep

	protection Protection
}

// modelStep is a step under way.
type modelStep struct {
	step    Step
	life    int64       // postmaster start of the upstream whose message it was decided on
	birth   int         // incarnation of the slot that this message told of
	anchor  *modelLocal // the anchor it names: a later one has another name
	taken   bool
	reached protocol.LSN
	err     error
}

var (
	errModelGate  = errors.New("gate is shut")
	errModelError = errors.New("error")
)

func (h *modelHelper) start() {
	h.inbox, h.seen, h.anchor, h.busy, h.protection = newInbox(), nil, Anchor{}, nil, h.whole
	h.tracks = map[string]Track{}
	for name, row := range h.rows {
		h.tracks[name] = row.track()
	}
}

// kill is kill -9: sessions end, and with them the anchor.
func (h *modelHelper) kill() {
	h.standby.anchor = nil
	h.start()
}

// look is Helper.look.
func (h *modelHelper) look(now time.Time) (View, Decision) {
	s := h.standby.view(h.anchor.Name)
	up := h.inbox.get()
	if m := up.Message; m != nil && m.SystemIdentifier != s.SystemIdentifier {
		up.OtherSystem, up.Message = m.SystemIdentifier, nil
	}
	if m := up.Message; m != nil && h.seen != m && m.TimelineID == s.ReceivedTLI {
		h.seen = m
		names := map[string]bool{}
		for i := range m.Slots {
			u := &m.Slots[i]
			names[u.Name] = true
			h.tracks[u.Name] = h.tracks[u.Name].Observe(m, u)
		}
		for name, t := range h.tracks {
			if names[name] || h.isBusy(name) {
				continue
			}
			if _, owned := h.rows[name]; owned {
				h.tracks[name] = t.gone()
			} else {
				delete(h.tracks, name)
			}
		}
	}
	if h.anchor.Phase == AnchorLive && h.standby.anchor == nil {
		h.anchor = Anchor{LastError: ReasonRecoveryConflict, RetryAt: now.Add(firstRetry)}
	}
	v := View{
		Now: now, Standby: s, Upstream: up, Owned: maps.Clone(h.rows), Tracks: h.tracks, Anchor: h.anchor, Protection: h.protection,
		Busy: map[string]bool{}, Settings: DefaultSettings(),
	}
	v.Settings.AnchorBudget = 0x400
	v.Settings.AnchorInterval = 2 * time.Second
	for _, b := range h.busy {
		v.Busy[b.step.Slot] = true
		if b.step.Kind == StepCopy {
			v.Anchor.Copies++
		}
	}
	if l := h.standby.anchor; l != nil && h.anchor.Phase == AnchorLive {
		v.Anchor.Position, v.Anchor.RestartLSN, v.Anchor.CatalogXmin = l.confirmed, l.confirmed, l.xmin
	}
	d := Decide(&v)
	maps.Copy(h.tracks, d.Tracks)
	h.anchor.Proven, h.anchor.ProvenBy = d.AnchorProven, d.ProvenBy
	h.protection = d.Protection
	h.whole = d.Protection.life()
	h.whole.Whole = d.Protection.Whole
	rememberVerdict(h.rows, h.tracks, &s)
	return v, d
}

func (h *modelHelper) isBusy(name string) bool {
	return slices.ContainsFunc(h.busy, func(b modelStep) bool { return b.step.Slot == name })
}

// act is Helper.act: rows first, then the steps.
func (h *modelHelper) act(v *View, d *Decision, births map[string]int) {
	switch d.Anchor.Kind {
	case AnchorCreate:
		h.anchor = Anchor{Phase: AnchorCreating, Name: newAnchorName(), Started: v.Now}
	case AnchorAdvance:
		if a := h.standby.anchor; a != nil && h.standby.replay >= d.Anchor.Target {
			if h.standby.advance(a, d.Anchor.Target) != nil {
				h.standby.anchor = nil // any error drops it
			}
		}
		h.anchor.LastAdvance = v.Now
	case AnchorClose:
		h.standby.anchor = nil
		h.anchor = Anchor{LastError: d.Anchor.Why, RetryAt: v.Now.Add(firstRetry)}
	}
	recordSteps(h.rows, d.Steps, h.tracks, &v.Standby, v.Now)
	for _, s := range d.Steps {
		switch s.Kind {
		case StepAdopt:
			h.standby.slots[s.Slot].foreign = false
		case StepForget:
			// Left to another program, or moved by somebody before its copy was settled: from
			// now on it is not the helper's.
			if l := h.standby.slots[s.Slot]; l != nil && (s.Why == ReasonOtherManager || l.tampered) {
				l.foreign, l.tampered = true, true
			}
		default:
			h.busy = append(h.busy, modelStep{step: s, life: v.Upstream.Message.PostmasterStartTime, birth: births[s.Slot],
				anchor: h.standby.anchor})
		}
	}
}

// finishAnchor ends an anchor's creation: decoding is consistent here.
func (h *modelHelper) finishAnchor(now time.Time) {
	if h.anchor.Phase != AnchorCreating || !h.standby.restored {
		return
	}
	at := h.standby.replay
	h.standby.anchor = &modelLocal{confirmed: at, saved: at, xmin: xminAt(at)}
	h.anchor.Phase, h.anchor.Position, h.anchor.LastAdvance = AnchorLive, at, now
}

// take takes a step on the standby, as steps.go does. It returns what it did wrong,
// "" for nothing.
func (h *modelHelper) take(b *modelStep) string {
	s := h.standby
	b.taken = true
	step := b.step
	if !s.connected || !s.restored || s.timeline != step.Timeline {
		b.err = errModelGate
		return ""
	}
	l, exists := s.slots[step.Slot]
	switch step.Kind {
	case StepCopy:
		switch {
		case s.replay < step.Target || step.Upstream < step.Target:
			b.err = errModelGate
		case exists || s.anchor == nil || s.anchor != b.anchor:
			b.err = errModelError
		default:
			a := s.anchor
			s.slots[step.Slot] = &modelLocal{confirmed: a.confirmed, saved: a.confirmed, xmin: a.xmin, birth: b.birth}
			b.reached = a.confirmed
			if a.confirmed > step.Upstream {
				return "a copy lies past the U it was decided on"
			}
		}
	case StepAdvance:
		if !exists {
			b.err = errModelError
			return ""
		}
		if l.foreign {
			return "advances a slot that is not ours"
		}
		b.err = s.advance(l, min(step.Target, s.replay))
		b.reached = l.confirmed
	case StepDrop:
		if exists && l.foreign {
			return "drops a slot that is not ours"
		}
		delete(s.slots, step.Slot)
	}
	return ""
}

// settle is Helper.settle.
func (h *modelHelper) settle(now time.Time) {
	keep := h.busy[:0]
	for _, b := range h.busy {
		if !b.taken {
			keep = append(keep, b)
			continue
		}
		name := b.step.Slot
		t := h.tracks[name]
		switch {
		case errors.Is(b.err, errModelGate):
		case b.err != nil:
			t.LastError, t.RetryAt = ReasonError, now.Add(2*time.Second)
		default:
			t.LastError, t.RetryAt = ReasonNone, time.Time{}
			writeOutcome(h.rows, b.step, b.reached)
		}
		if b.step.Kind == StepAdvance {
			t.LastAdvance = now
		}
		if t.Left = b.reached; b.err != nil {
			t.Left = protocol.InvalidLSN
		}
		h.tracks[name] = t
	}
	h.busy = keep
}
