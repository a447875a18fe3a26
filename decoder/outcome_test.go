package decoder

import "testing"

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
