package decoder

import (
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// A two_phase slot of 16 and 17 that was ready, a helper that is killed at once, and
// a promotion before its next start: the slot is handed over. What made it ready
// was written down with the next advance only, so it was dropped as one that
// waits for prepared transactions.
func TestReadyTwoPhaseSlotOutlivesTheHelper(t *testing.T) {
	const lsn = protocol.LSN(0x4000)
	var local LocalSlot
	local.Name, local.Plugin, local.Database, local.TwoPhase = "sub", "pgoutput", "postgres", true
	local.ConfirmedFlushLSN, local.RestartLSN = lsn, lsn-0x100
	row := LedgerRow{Name: "sub", Plugin: "pgoutput", Database: "postgres", TwoPhase: true, BornLSN: lsn, UpstreamLSN: lsn, TimelineID: 1}
	for _, clear := range []bool{false, true} {
		rows := map[string]LedgerRow{"sub": row}
		rememberVerdict(rows, map[string]Track{"sub": {Confirmed: lsn, TimelineID: 1, TwoPhaseClear: clear}},
			&Standby{Slots: []LocalSlot{local}})

		restarted := rows["sub"]
		report := PlanPromotion(&PromotionView{
			Standby:  Standby{ServerVersionNum: 160000, Slots: []LocalSlot{local}},
			Timeline: 2, Owned: rows, Tracks: map[string]Track{"sub": restarted.track()},
		})
		if got := report.Slots[0]; got.Usable != clear || !clear && got.Reason != ReasonPrepared {
			t.Errorf("clear %t: it is %+v", clear, got)
		}
	}
}
