package decoder

import "testing"

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
