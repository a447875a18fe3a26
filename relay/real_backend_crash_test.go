package relay_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// A backend that is killed takes all others with it, and slots are read from disk again.
// The postmaster lives on; a message says that it is another life all the same.
func TestCrashOfABackendIsAnotherLife(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{Settings: map[string]string{"restart_after_crash": "on"}})
		s := new(sink)
		source := startSource(t, primary, relay.SlotSourceConfig{PollInterval: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond})
		t.Cleanup(source.Subscribe(s.Deliver))
		before := s.wait(t, "anything", func(*protocol.SlotMessage) bool { return true })
		postmaster := clustertest.Value[time.Time](t, primary, "postgres", "SELECT pg_postmaster_start_time()")
		conn, err := primary.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		if err := syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		after := s.wait(t, "another epoch", func(m *protocol.SlotMessage) bool { return m.Epoch != before.Epoch })
		if after.PostmasterStartTime <= before.PostmasterStartTime {
			t.Errorf("start time %d, it was %d before the crash", after.PostmasterStartTime, before.PostmasterStartTime)
		}
		if now := clustertest.Value[time.Time](t, primary, "postgres", "SELECT pg_postmaster_start_time()"); !now.Equal(postmaster) {
			t.Errorf("the postmaster is another: started %v, before %v", now, postmaster)
		}
	})
}
