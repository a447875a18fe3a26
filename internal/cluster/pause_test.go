package cluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

func TestPauseAndResume(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary, standby := pair(t, major)
		must(t, primary.WaitForStreaming(t.Context(), "standby"))
		must(t, primary.Pause(t.Context()))

		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := primary.Exec(short, "postgres", "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("query on a paused server: %v, want a timeout", err)
		}
		if !primary.Running() {
			t.Error("a paused server counts as ended")
		}
		if err := primary.Stop(t.Context(), cluster.Fast); err == nil {
			t.Error("a paused server was stopped")
		}
		must(t, primary.Resume())
		insert(t, primary, standby, 1)

		must(t, primary.Pause(t.Context()))
		must(t, primary.Kill9())
		must(t, primary.Start(t.Context()))
		insert(t, primary, standby, 2)
	})
}
