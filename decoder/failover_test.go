package decoder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// A slot that is born upstream is made on the standby, and after a failover gives
// every row from the subscriber's position on.
func TestSlotSurvivesFailover(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		poll.Require(t, 30*time.Second, "anchor", func(context.Context) (bool, string) {
			a := p.helper.Status().Anchor
			return a.Proven, fmt.Sprintf("%+v", a)
		})
		born := time.Now()
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		t.Logf("ready %s after its birth", time.Since(born))

		clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t SELECT g, 'before' FROM generate_series(1, 10) g",
			"SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)", // confirmed: 1 to 10
			"INSERT INTO t SELECT g, 'after' FROM generate_series(11, 20) g")    // needed: 11 to 20
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		if err := p.standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		poll.Require(t, 30*time.Second, "promotion report", func(context.Context) (bool, string) {
			return p.helper.Status().Promotion != nil, ""
		})
		t.Logf("report %+v", p.helper.Status().Promotion)
		rows, err := cluster.QueryColumn[string](t.Context(), p.standby, "postgres",
			"SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data LIKE 'table%'")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, r := range rows {
			var i int
			if _, err := fmt.Sscanf(r, "table public.t: INSERT: i[integer]:%d", &i); err != nil {
				t.Fatalf("row %q: %v", r, err)
			}
			seen[i] = true
		}
		for i := 11; i <= 20; i++ {
			if !seen[i] {
				t.Errorf("row %d is lost", i)
			}
		}
	})
}
