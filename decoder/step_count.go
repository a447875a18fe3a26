package decoder

import (
	"cmp"
	"slices"
)

// StepCount says how often a step has ended in an outcome since the helper's
// start.
type StepCount struct {
	Step    string `json:"step"`    // copy, advance, drop; anchor_create, anchor_advance
	Outcome string `json:"outcome"` // done; failed; gated: the standby had changed meanwhile, so it was not taken
	Count   uint64 `json:"count"`
}

type stepOutcome struct{ step, outcome string }

// countStep counts a result. Steps that nobody waits for have none.
func (h *Helper) countStep(r result) {
	key := stepOutcome{step: string(r.step.Kind), outcome: "done"}
	if r.anchor != AnchorNothing {
		key.step = "anchor_" + string(r.anchor)
	}
	switch {
	case r.err != nil && classify(r.err) == ReasonNone:
		key.outcome = "gated"
	case r.err != nil:
		key.outcome = "failed"
	}
	if h.counts == nil {
		h.counts = map[stepOutcome]uint64{}
	}
	h.counts[key]++
}

// stepCounts returns the counts in a fixed order.
func (h *Helper) stepCounts() []StepCount {
	list := make([]StepCount, 0, len(h.counts))
	for key, n := range h.counts {
		list = append(list, StepCount{key.step, key.outcome, n})
	}
	slices.SortFunc(list, func(a, b StepCount) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Outcome, b.Outcome))
	})
	return list
}
