package decoder

import (
	"fmt"
	"testing"
)

func TestDecisionStrings(t *testing.T) {
	for _, tc := range []struct {
		value fmt.Stringer
		want  string
	}{
		{Step{Kind: StepCopy, Slot: "a", Target: 0x1000}, "copy a to 0/1000"},
		{Step{Kind: StepAdvance, Slot: "a", Target: 0x1000}, "advance a to 0/1000"},
		{Step{Kind: StepDrop, Slot: "a", Target: 0x1000, Why: ReasonNotOnUpstream}, "drop a: not_on_upstream"},
		{Step{Kind: StepAdopt, Slot: "a"}, "adopt a"},
		{Step{Kind: StepForget, Slot: "a", Why: ReasonNameClash}, "forget a: name_clash"},
		{AnchorStep{}, "anchor nothing"},
		{AnchorStep{Why: ReasonNoRelay}, "anchor nothing: no_relay"},
		{AnchorStep{Kind: AnchorCreate}, "anchor create"},
		{AnchorStep{Kind: AnchorAdvance, Target: 0x1000}, "anchor advance to 0/1000"},
		{AnchorStep{Kind: AnchorAdvance, Target: 0x1000, Behind: []string{"a", "b"}}, "anchor advance to 0/1000, leaves behind a b"},
		{AnchorStep{Kind: AnchorClose, Why: ReasonDistrusted}, "anchor close: protection_was_broken"},
		{SlotStatus{Name: "a", State: StateReady}, "a ready"},
		{SlotStatus{Name: "a", State: StateBlocked, Reason: ReasonTwoPhase}, "a blocked: two_phase"},
		{SlotStatus{Name: "a", State: StatePending, Reason: ReasonSubscriberBehind, Detail: "7 bytes"},
			"a pending: subscriber_behind (7 bytes)"},
		{AnchorNone, "none"},
		{AnchorCreating, "creating"},
		{AnchorLive, "live"},
		{AnchorMoving, "moving"},
	} {
		if got := tc.value.String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
