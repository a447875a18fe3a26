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

// A delay that the operator wants is no standstill, one on top of it is; and nobody
// can see what waits in the archive.
func TestStallWatch(t *testing.T) {
	streams := Standby{InRecovery: true, ReceivedTLI: 1, Replay: 0x1000, Receive: 0x2000}
	change := func(f func(*Standby)) Standby { s := streams; f(&s); return s }
	for _, tc := range []struct {
		name    string
		standby Standby
		after   time.Duration // from which on it is a standstill; 0: never
	}{
		{"WAL waits", streams, stallTimeout},
		{"none waits", change(func(s *Standby) { s.Receive = s.Replay }), 0},
		{"replay is paused", change(func(s *Standby) { s.ReplayPaused = true }), 0},
		{"out of recovery", change(func(s *Standby) { s.InRecovery = false }), 0},
		{"recovery_min_apply_delay", change(func(s *Standby) { s.ApplyDelay = time.Minute }), stallTimeout + time.Minute},
		{"from the archive", change(func(s *Standby) { s.ReceivedTLI, s.Receive = 0, s.Replay }), stallTimeout},
	} {
		var w stallWatch
		now := time.Now()
		w.stalled(&tc.standby, now)
		for d := time.Second; d < 2*time.Minute; d += time.Second {
			if got, want := w.stalled(&tc.standby, now.Add(d)), tc.after > 0 && d >= tc.after; got != want {
				t.Errorf("%s: after %s %t, want %t", tc.name, d, got, want)
				break
			}
		}
		tc.standby.Replay++
		if w.stalled(&tc.standby, now.Add(3*time.Minute)) {
			t.Errorf("%s: it stands still although it has moved", tc.name)
		}
	}
}
