package decoder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// A slot that is born upstream is made on the standby, and after a failover gives
// every row from the subscriber's position on.
func TestSlotSurvivesFailover(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
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

// A copy has no failover flag. Where the setting asks for it, the promotion puts
// back what the upstream's slot had.
func TestFailoverFlagIsPutBack(t *testing.T) {
	for _, major := range clustertest.Majors(t) {
		if major < 17 {
			continue // its slots have no such flag
		}
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			p := newPairWith(t, major, DefaultSettings())
			p.stop()
			p.runningHelper = startHelper(t, p.standby, p.source, t.TempDir(), DefaultSettings(), func(c *Config) { c.RestoreFailover = true })
			p.waitAnchor(t)
			clustertest.Exec(t, p.primary, "postgres",
				"SELECT pg_create_logical_replication_slot('flagged', 'pgoutput', failover => true)",
				"SELECT pg_create_logical_replication_slot('plain', 'pgoutput')")
			p.slot(t, "flagged", StateReady, ReasonNone)
			p.slot(t, "plain", StateReady, ReasonNone)
			if err := p.primary.Kill9(); err != nil {
				t.Fatal(err)
			}
			report := p.promote(t)
			for slot, want := range map[string]bool{"flagged": true, "plain": false} {
				if got := clustertest.Value[bool](t, p.standby, "postgres",
					"SELECT failover FROM pg_replication_slots WHERE slot_name = $1", slot); got != want {
					t.Errorf("slot %s has failover %t, want %t: %+v", slot, got, want, report)
				}
			}
		})
	}
}

// Silence is not news: when messages stop, slots are not ready any more, stay
// where they are, and are usable if the promotion comes (I-15).
func TestSilenceDropsNothing(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		p.source.pause(true)
		p.slot(t, "s", StatePending, ReasonUpstreamStale)
		p.source.pause(false)
		p.slot(t, "s", StateReady, ReasonNone)
		p.source.pause(true)
		p.slot(t, "s", StatePending, ReasonUpstreamStale)
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		report := p.promote(t)
		if len(report.Slots) != 1 || !report.Slots[0].Usable {
			t.Errorf("report %+v", report)
		}
	})
}

// A slot that must not be handed over and is in use when the promotion comes is
// dropped as soon as it can be, not forgotten. A helper that is started anew between
// the tries adds to the report of the one before, where it once wrote one of its own
// with the remaining slots alone.
func TestLossySlotInUseIsDroppedLater(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')",
			"SELECT pg_create_logical_replication_slot('good', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		p.slot(t, "good", StateReady, ReasonNone)
		clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t VALUES (1)")
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		// Somebody consumes it here past its subscriber, and goes on using it.
		conn, err := p.standby.ConnectReplication(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		p.source.pause(true)
		clustertest.Exec(t, p.standby, "postgres", "SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")
		if err := pglogrepl.StartReplication(t.Context(), conn, "s", 0, pglogrepl.StartReplicationOptions{}); err != nil {
			t.Fatal(err)
		}
		p.source.pause(false)
		poll.Require(t, 30*time.Second, "the helper to see it", func(context.Context) (bool, string) {
			return strings.Contains(p.log.String(), string(ReasonConsumedOnStandby)), ""
		})
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		whole := func(who string, report *PromotionReport) {
			t.Helper()
			if report == nil || len(report.Slots) != 2 || report.Slots[0].Name != "good" || !report.Slots[0].Usable ||
				report.Slots[1].Usable || report.Slots[1].Reason != ReasonConsumedOnStandby {
				t.Errorf("report of %s: %+v", who, report)
			}
		}
		whole("the first helper", p.promote(t))
		p.stop()
		p.runningHelper = startHelper(t, p.standby, p.source, p.dir, DefaultSettings())
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone(t, p.standby, "s")
		poll.Require(t, 30*time.Second, "the second helper to finish", func(context.Context) (bool, string) {
			return strings.Contains(p.log.String(), "promotion finished"), ""
		})
		p.stop()
		whole("the second helper", p.helper.Status().Promotion)
		kept, err := readPromotion(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		whole("the state directory", kept)
		if text, err := os.ReadFile(filepath.Join(p.dir, promotionText)); err != nil || string(text) != kept.Text(false) {
			t.Errorf("%s: %v\n%s", promotionText, err, text)
		}
	})
}

// A helper that was down at the promotion and comes back when the subscriber has
// long gone on leaves the slot where the subscriber has it.
func TestLateHelperLeavesSlotsAlone(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		p.stop()
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		if err := p.standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		clustertest.Exec(t, p.standby, "postgres", "INSERT INTO t VALUES (1)",
			"SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")
		p.runningHelper = startHelper(t, p.standby, p.source, p.dir, DefaultSettings())
		poll.Require(t, 30*time.Second, "the promotion report", func(context.Context) (bool, string) {
			return p.helper.Status().Promotion != nil, ""
		})
		if slots := p.helper.Status().Promotion.Slots; len(slots) != 1 || !slots[0].Usable || slots[0].Action != PromotionKeep {
			t.Errorf("report %+v", slots)
		}
		clustertest.Exec(t, p.standby, "postgres", "INSERT INTO t VALUES (2)",
			"SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")
	})
}

// A slot that had not been made when the promotion came is in the report, with the
// reason, also when it was the only one: it is the one its subscriber loses.
func TestPendingSlotIsReported(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		p.source.pause(true)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('idle', 'test_decoding')",
			"INSERT INTO t VALUES (1)")
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		p.stop() // the next helper's anchor is past the slot
		p.source.pause(false)
		p.runningHelper = startHelper(t, p.standby, p.source, p.dir, DefaultSettings())
		p.slot(t, "idle", StatePending, ReasonSubscriberBehind)
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		slots := p.promote(t).Slots
		if len(slots) != 1 || slots[0].Name != "idle" || slots[0].Usable || slots[0].Action != PromotionMissing {
			t.Errorf("report %+v", slots)
		}
	})
}
