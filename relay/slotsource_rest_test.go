package relay

import (
	"context"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// However many snapshots are asked for, the next look comes when it is due: each
// request was followed by a look at once.
func TestSnapshotRequestsBringNoLookNearer(t *testing.T) {
	// In recovery no snapshot is made, so that no connection is needed.
	r := &reading{s: testSource(t), last: &protocol.SlotMessage{InRecovery: true}}
	due, rested := make(chan time.Time), make(chan error, 1)
	go func() { rested <- r.rest(t.Context(), due) }()
	for range 1000 {
		select {
		case r.s.snapshot <- struct{}{}:
		case err := <-rested:
			t.Fatalf("the next look came without being due, %v", err)
		}
	}
	due <- time.Now()
	if err := <-rested; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.rest(ctx, due); err != context.Canceled {
		t.Errorf("at the end: %v", err)
	}
}
