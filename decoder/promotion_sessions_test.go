package decoder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// After a promotion no session of the helper stays in a database of the new
// primary, which it would keep from being dropped (I-7).
func TestNoSessionStaysInADatabaseAfterAPromotion(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE other")
		clustertest.Exec(t, p.primary, "other", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(t)
		poll.Require(t, 30*time.Second, "the helper's sessions to end", func(context.Context) (bool, string) {
			n := clustertest.Value[int64](t, p.standby, "postgres",
				"SELECT count(*) FROM pg_stat_activity WHERE datname = 'other' AND application_name = $1", applicationName)
			return n == 0, fmt.Sprintf("%d left", n)
		})
	})
}
