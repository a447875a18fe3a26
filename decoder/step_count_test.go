package decoder

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestStepCounts(t *testing.T) {
	var h Helper
	for _, r := range []result{
		{step: Step{Kind: StepCopy}},
		{step: Step{Kind: StepAdvance}, err: errors.New("refused")},
		{step: Step{Kind: StepAdvance}, err: fmt.Errorf("advance slot: %w", errNotNow)},
		{step: Step{Kind: StepCopy}},
		{anchor: AnchorCreate},
	} {
		h.countStep(r)
	}
	want := []StepCount{
		{"advance", "failed", 1}, {"advance", "gated", 1}, {"anchor_create", "done", 1}, {"copy", "done", 2},
	}
	if got := h.stepCounts(); !slices.Equal(got, want) {
		t.Errorf("stepCounts() = %v, want %v", got, want)
	}
}
