package decoder

import (
	"testing"
	"time"
)

// What a step has come to is seen by the next decision, and is on the disk a moment
// later. Only a copy may wait so: its row is right without its outcome, too.
func TestOutcomesAreSeenBeforeTheyAreWritten(t *testing.T) {
	ledger, _, err := OpenLedger(t.TempDir(), NodeIdentity{})
	if err == nil {
		err = ledger.Update(func(rows map[string]LedgerRow) {
			rows["s"] = LedgerRow{Name: "s", Intent: IntentCopy, BornLSN: 5}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	copied := outcome{Step{Kind: StepCopy, Slot: "s"}, 7}
	h := &Helper{ledger: ledger, outcomes: []outcome{copied}, said: map[string]string{}}
	if row := h.view(Upstream{}).Owned["s"]; row.Intent != IntentNone || row.BornLSN != 7 {
		t.Errorf("a decision sees %+v, want it settled at 7", row)
	}
	if row := ledger.Rows()["s"]; row.Intent != IntentCopy {
		t.Errorf("the ledger has %+v already", row)
	}
	h.recordOutcomes()
	if row := ledger.Rows()["s"]; row.Intent != IntentNone || row.BornLSN != 7 || len(h.outcomes) != 0 {
		t.Errorf("the ledger has %+v, and there are %d outcomes left", row, len(h.outcomes))
	}
	for kind, want := range map[StepKind]bool{StepCopy: true, StepDrop: false} {
		if got := onlyCopies([]outcome{copied, {Step{Kind: kind}, 0}}); got != want {
			t.Errorf("with a %s: only copies = %t, want %t", kind, got, want)
		}
	}
}

// A slot that was made is looked at once, unless more are to be made; advances that
// wait for a session do not count.
func TestAdvancesDoNotKeepANewSlotFromBeingShown(t *testing.T) {
	tracks := map[string]Track{}
	advances := inOrder([]Step{{Kind: StepAdvance, Slot: "a"}, {Kind: StepAdvance, Slot: "b"}}, tracks)
	copies := inOrder(append(advances[:2:2], Step{Kind: StepCopy, Slot: "c"}), tracks)
	for name, tt := range map[string]struct {
		queue []Step
		since time.Duration
		want  time.Duration
	}{
		"nothing waits":              {nil, 0, 0},
		"advances wait":              {advances, 0, 0},
		"a copy waits":               {copies, 0, queueLookInterval},
		"a copy has waited for long": {copies, queueLookInterval + 1, -1},
	} {
		if got := queueWait(tt.queue, tt.since); got != tt.want {
			t.Errorf("%s: the look waits %s, want %s", name, got, tt.want)
		}
	}
}
