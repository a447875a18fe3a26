package decoder

import (
	"fmt"
	"testing"
)

// A database in which every session hangs takes no session from the slots of others,
// which waited for its steps to be given up.
func TestNextStep(t *testing.T) {
	step := func(kind StepKind, database string) Step { return Step{Kind: kind, Database: database} }
	queue := []Step{step(StepCopy, "a"), step(StepDrop, "a"), step(StepCopy, "b"), step(StepAdvance, "a"), step(StepAdvance, "b")}
	for _, tc := range []struct {
		queue    []Step
		busy     string // databases of the steps under way
		sessions int
		want     int
	}{
		{nil, "", 4, -1},
		{queue, "", 4, 0},
		{queue, "aa", 4, 0},
		{queue, "aaa", 4, 2},
		{queue, "aab", 4, 0},
		{queue, "aaab", 4, -1},
		{queue[:2], "aaa", 4, -1},
		{queue[3:], "aa", 4, 0},
		{queue[3:], "aaa", 4, -1},
		{queue[3:], "ccc", 4, -1}, // advances leave one free
		{queue, "", 1, 0},
		{queue, "a", 1, -1},
		{queue, "a", 2, 2},
	} {
		busy := map[string]stepRun{}
		for i, database := range tc.busy {
			busy[fmt.Sprint(i)] = stepRun{step: step(StepCopy, string(database))}
		}
		if got := nextStep(tc.queue, busy, tc.sessions); got != tc.want {
			t.Errorf("%v beside %q with %d sessions: got %d, want %d", tc.queue, tc.busy, tc.sessions, got, tc.want)
		}
	}
}

// An anchor that was given up for the same reason again was tried again after the
// same two seconds each time: giving up forgot how long the last pause was.
func TestGivingUpAnAnchorBacksOff(t *testing.T) {
	h, err := New(Config{Standby: "host=localhost", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		why  Reason
		want Anchor
	}{
		{ReasonWALNotReplayed, Anchor{LastError: ReasonWALNotReplayed, RetryWait: firstRetry}},
		{ReasonWALNotReplayed, Anchor{LastError: ReasonWALNotReplayed, RetryWait: 2 * firstRetry}},
		{ReasonRecoveryConflict, Anchor{LastError: ReasonRecoveryConflict, RetryWait: firstRetry}},
		{ReasonNotInRecovery, Anchor{}},
	} {
		h.anchor.Phase = AnchorCreating
		h.giveUpAnchor(step.why, "")
		got := h.anchor
		if got.RetryAt.IsZero() == (step.why != ReasonNotInRecovery) {
			t.Errorf("%s: next try at %v", step.why, got.RetryAt)
		}
		got.RetryAt = step.want.RetryAt
		if got != step.want {
			t.Errorf("%s: got %+v, want %+v", step.why, got, step.want)
		}
	}
}
