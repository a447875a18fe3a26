package decoder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// act begins what was decided. What a step changes is written to the ledger
// before it begins, for all steps of one look in one write (I-10). Steps that find
// no session free wait in the queue until the next look, which decides anew.
func (h *Helper) act(ctx context.Context, d *Decision) {
	h.queue = nil
	steps := slices.DeleteFunc(d.Steps, func(s Step) bool { return h.busy[s.Slot].cancel != nil })
	if len(steps) == 0 {
		return
	}
	err := h.ledger.Update(func(rows map[string]LedgerRow) {
		recordSteps(rows, steps, h.tracks, &h.standby.Standby, time.Now().UTC())
	})
	h.sayLedger(err)
	if err != nil {
		for _, s := range steps {
			h.cool(s.Slot, fmt.Errorf("%w: %w", errLedger, err))
		}
		return
	}
	h.queue = inOrder(steps, h.tracks)
	h.pump(ctx)
}

// inOrder puts what makes and removes slots first, then advances; each database by
// database, so that a session serves many, and there the longest waiting first.
func inOrder(steps []Step, tracks map[string]Track) []Step {
	class := func(s Step) int {
		if s.Kind == StepAdvance {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(class(a)-class(b), strings.Compare(a.Database, b.Database),
			tracks[a.Slot].LastAdvance.Compare(tracks[b.Slot].LastAdvance))
	})
	return steps
}

// pump begins queued steps while there are sessions for them.
func (h *Helper) pump(ctx context.Context) {
	for {
		i := nextStep(h.queue, h.busy, h.cfg.MaxSessions)
		if i < 0 {
			return
		}
		s := h.queue[i]
		h.queue = slices.Delete(h.queue, i, i+1)
		h.begin(ctx, s)
	}
}

// nextStep says which of the queued steps may begin beside those under way; -1:
// none. Advances leave a session free, so that long ones never keep a new slot
// waiting. So does a database, so that one whose sessions hang keeps none but its
// own slots waiting (I-11).
func nextStep(queue []Step, busy map[string]stepRun, sessions int) int {
	if len(busy) >= sessions {
		return -1
	}
	share := max(1, sessions-1)
	inDatabase := make(map[string]int, len(busy))
	for _, run := range busy {
		inDatabase[run.step.Database]++
	}
	return slices.IndexFunc(queue, func(s Step) bool {
		return inDatabase[s.Database] < share && (s.Kind != StepAdvance || len(busy) < share)
	})
}

// begin runs a step that needs the standby in a goroutine of its own. Its
// outcome comes back as a result; steps of the ledger alone are done already.
func (h *Helper) begin(ctx context.Context, s Step) {
	event := h.log.Info().Str("slot_name", s.Slot).Str("database", s.Database).Str("step", string(s.Kind))
	if s.Why != ReasonNone {
		event = event.Str("reason", string(s.Why))
	}
	switch s.Kind {
	case StepAdopt, StepForget:
		event.Msg("ledger row is settled")
		return
	case StepAdvance:
		event.Discard()
	default:
		event.Stringer("upstream_confirmed_flush_lsn", s.Upstream).Msg("step begins")
	}
	stepCtx, cancel := context.WithCancel(ctx)
	h.busy[s.Slot] = stepRun{step: s, start: time.Now(), cancel: cancel}
	anchor, patience := h.anchor.Name, h.patience(h.tracks[s.Slot])
	h.workers.Go(func() { h.runStep(stepCtx, s, anchor, patience) })
}

// patience is how long the next advance call of a slot may take.
func (h *Helper) patience(t Track) time.Duration {
	return cmp.Or(t.Patience, h.cfg.Settings.AdvanceDeadline)
}

// runStep takes a step. A panic in it is an error of its slot, and of no other.
func (h *Helper) runStep(ctx context.Context, s Step, anchor string, patience time.Duration) {
	start := time.Now()
	r := result{step: s}
	r.err = h.panics.Do(placeOf(s.Slot), h.log, func() (err error) {
		switch s.Kind {
		case StepCopy:
			r.lsn, err = copySlot(ctx, h.sessions, anchor, s)
		case StepAdvance:
			r.lsn, err = advanceSlot(ctx, h.sessions, s, patience)
		case StepDrop:
			err = dropSlot(ctx, h.sessions, s, true)
		}
		return err
	})
	r.took = time.Since(start)
	h.results <- r
}

// placeOf names a slot where a panic is logged.
func placeOf(slot string) string { return fmt.Sprintf("slot %q", slot) }

// settle takes in the outcome of a step or of the anchor.
func (h *Helper) settle(r result) {
	h.countStep(r)
	if r.anchor != AnchorNothing {
		h.settleAnchor(r)
		return
	}
	s := r.step
	h.busy[s.Slot].cancel()
	delete(h.busy, s.Slot)
	t := h.tracks[s.Slot]
	if s.Kind == StepAdvance {
		t.LastAdvance = time.Now()
		if r.err == nil {
			t.Cost, t.Patience = r.took, 0
		}
	}
	t.Left = r.lsn // not known after an error: what was sent to the server may still be done
	h.tracks[s.Slot] = t
	if r.err != nil {
		h.cool(s.Slot, r.err)
		if errors.Is(r.err, errTooSlow) {
			h.giveTime(s.Slot, r.took)
		}
		return
	}
	t.LastError, t.LastDetail, t.RetryAt, t.RetryWait = ReasonNone, "", time.Time{}, 0
	h.tracks[s.Slot] = t
	delete(h.said, "slot "+s.Slot)
	if s.Kind == StepAdvance {
		return
	}
	h.outcomes = append(h.outcomes, outcome{s, r.lsn})
	if s.Kind == StepCopy {
		h.log.Info().Str("slot_name", s.Slot).Str("database", s.Database).Stringer("confirmed_flush_lsn", r.lsn).
			Stringer("upstream_confirmed_flush_lsn", s.Upstream).Dur("took", r.took).Msg("slot made on the standby")
	}
	if s.Kind == StepDrop {
		h.log.Info().Str("slot_name", s.Slot).Str("reason", string(s.Why)).Msg("slot dropped on the standby")
	}
}

// giveTime gives an advance that was too slow twice the time at its next try, and the
// server as long a rest before that.
func (h *Helper) giveTime(slot string, took time.Duration) {
	t := h.tracks[slot]
	t.Patience = morePatience(h.patience(t))
	t.RetryAt = time.Now().Add(max(firstRetry, took))
	h.tracks[slot] = t
}

// outcome is a step that was taken, and where it left the slot.
type outcome struct {
	step Step
	lsn  protocol.LSN
}

// onlyCopies reports whether nothing but copies was made. What the row of a copy
// says before its outcome is in it is right as well (IntentCopy), so that may wait
// until the slot has been shown to be ready; the row of a slot that was dropped may
// not, or the next one of that name would lose its row.
func onlyCopies(outcomes []outcome) bool {
	return !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.step.Kind != StepCopy })
}

// recordOutcomes settles the rows of steps that were taken since the last look, in
// one write. A helper that is killed before it finds their intents, and the slots.
func (h *Helper) recordOutcomes() {
	if len(h.outcomes) == 0 {
		return
	}
	err := h.ledger.Update(func(rows map[string]LedgerRow) {
		for _, o := range h.outcomes {
			writeOutcome(rows, o.step, o.lsn)
		}
	})
	h.sayLedger(err)
	if err == nil {
		h.outcomes = nil
	}
}

// cool notes an error of a slot's step and holds its next step back for a while.
func (h *Helper) cool(slot string, err error) {
	reason := classify(err)
	if reason == ReasonNone {
		return // the gate was shut: look again
	}
	t := h.tracks[slot]
	t.RetryWait = retryWait(t.RetryWait, t.LastError == reason)
	t.LastError, t.LastDetail, t.RetryAt = reason, err.Error(), time.Now().Add(t.RetryWait)
	h.tracks[slot] = t
	h.say("slot "+slot, string(reason), h.log.Warn().Str("slot_name", slot).Str("reason", string(reason)).
		Str("sqlstate", sqlState(err)).Err(err).Str("hint", reason.Hint()), "step failed")
}
