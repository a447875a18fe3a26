package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
	"github.com/slotferry/slotferry/protocol"
)

// The network stands still, and then the primary dies, while the standby has flushed
// the first part of a large record. It will never replay it: its timeline begins
// before the record. A consumer that was shown how far the standby had flushed would
// confirm a position in the middle of it, and get none of the first commits of the
// new primary.
func TestHeldBackInTheMiddleOfARecord(t *testing.T) {
	t.Parallel()
	s := newScene(t, rig.Sidecar, true, build(t, "slotferry", nil))
	ctx := t.Context()
	leg, err := s.legs.of(string(rig.LegWALReceiver), rig.Sidecar, s.primary, s.standby)
	s.must(err)
	before := leg.Bytes(faultproxy.Down)
	written := make(chan error, 1)
	const size = 64 << 20
	go func() {
		written <- s.primary.Server.Exec(ctx, databases[0], fmt.Sprintf("SELECT pg_logical_emit_message(false, 'large', repeat('x', %d))", size))
	}()
	poll.Require(t, waitTime, "a part of the record to be sent", func(context.Context) (bool, string) {
		n := leg.Bytes(faultproxy.Down) - before
		return n > 4<<20, fmt.Sprint(n)
	})
	leg.Stall(faultproxy.Down)
	if n := leg.Bytes(faultproxy.Down) - before; n > size {
		t.Fatalf("%d bytes are through: that is the whole record", n)
	}
	s.must(<-written)
	// The consumer is kept alive once a second, with a position.
	stalled := time.Now()
	var last protocol.LSN
	poll.Require(t, waitTime, "the consumer to be told of a position", func(context.Context) (bool, string) {
		last = s.stream("audit").consumer.Position()
		return time.Since(stalled) > 3*time.Second, last.String()
	})
	s.must(s.failover(ctx, 0, Phase{End: Failover, Patient: true}, &s.acts))
	s.swap(s.standby)
	s.must(s.rejoin(ctx, Phase{End: Failover}))
	s.swap(s.standby)
	if v := s.judge(); !v.Good() {
		t.Error("the round is bad")
	}
}
