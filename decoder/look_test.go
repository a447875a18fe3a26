package decoder

import (
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// A slot that the upstream has no more, and that cannot be dropped here because
// somebody uses it, was tried again at every slot message: the message took away
// the error that holds the next try back.
func TestMessageWithoutASlotLeavesItsErrorAlone(t *testing.T) {
	h, err := New(Config{Standby: "host=localhost", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if h.ledger, _, err = OpenLedger(h.cfg.StateDir, NodeIdentity{}); err != nil {
		t.Fatal(err)
	}
	if err := h.ledger.Update(func(rows map[string]LedgerRow) { rows["owned"] = LedgerRow{Name: "owned"} }); err != nil {
		t.Fatal(err)
	}
	h.standby.SystemIdentifier, h.standby.ReceivedTLI = 1, 1
	failed := Track{Confirmed: 0x50, Distrusted: true, LastError: ReasonError, RetryAt: time.Unix(1, 0)}
	h.tracks["owned"], h.tracks["other"] = failed, failed
	h.said["state other"] = "said"
	h.takeMessage(Upstream{Message: &protocol.SlotMessage{SystemIdentifier: 1, TimelineID: 1}})
	want := failed
	want.Confirmed = 0 // a slot that has the name later is another
	if h.tracks["owned"] != want {
		t.Errorf("track of the slot in the ledger: %+v", h.tracks["owned"])
	}
	if _, ok := h.tracks["other"]; ok || h.said["state other"] != "" {
		t.Error("a slot that is nowhere is remembered")
	}
}
