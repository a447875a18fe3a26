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

// I-8 with a real subscription that has two_phase: what was prepared before the
// failover and committed after it arrives once, and the subscriber's apply worker
// does not wait for itself.
func TestPreparedTransactionsAcrossFailover(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		settings := DefaultSettings()
		settings.AnchorInterval, settings.AdvanceInterval = 100*time.Millisecond, 100*time.Millisecond
		p := newPairWith(t, major, settings)
		p.waitAnchor(t)
		subscriber := clustertest.Primary(t, major, cluster.Config{Name: "subscriber"})
		clustertest.Exec(t, subscriber, "postgres", "CREATE TABLE t (i int PRIMARY KEY, v text)",
			fmt.Sprintf("CREATE SUBSCRIPTION sub CONNECTION '%s' PUBLICATION p WITH (two_phase = true)", p.primary.Conninfo("postgres")))
		poll.Require(t, 30*time.Second, "two_phase to be enabled", func(context.Context) (bool, string) {
			state := clustertest.Value[string](t, subscriber, "postgres", "SELECT subtwophasestate::text FROM pg_subscription")
			return state == "e", state
		})
		p.slot(t, "sub", StateReady, ReasonNone)
		poll.Require(t, 30*time.Second, "the standby's slot to have two_phase", func(context.Context) (bool, string) {
			n := clustertest.Value[int64](t, p.standby, "postgres",
				"SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'sub' AND two_phase")
			return n == 1, ""
		})
		p.slot(t, "sub", StateReady, ReasonNone)
		prepare := func(s *cluster.Server, i int) {
			t.Helper()
			clustertest.Exec(t, s, "postgres", fmt.Sprintf("BEGIN; INSERT INTO t VALUES (%d, 'prepared'); PREPARE TRANSACTION 'p%d'", i, i))
		}
		finish := func(s *cluster.Server, end string, i int) {
			t.Helper()
			clustertest.Exec(t, s, "postgres", fmt.Sprintf("%s PREPARED 'p%d'", end, i))
		}

		// The standby's slot is made again while a transaction that was prepared before
		// the anchor's position is open. 16 and 17 have to wait for its end.
		prepare(p.primary, 1)
		after := clustertest.Value[string](t, p.primary, "postgres", "SELECT pg_current_wal_lsn()::text")
		clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t VALUES (100, 'plain')")
		poll.Require(t, 30*time.Second, "the anchor to pass the prepared transaction", func(context.Context) (bool, string) {
			clustertest.Exec(t, p.primary, "postgres", "SELECT pg_log_standby_snapshot()")
			a := p.helper.Status().Anchor
			return clustertest.Value[bool](t, p.standby, "postgres", "SELECT $1::text::pg_lsn > $2::text::pg_lsn", a.Position.String(), after),
				fmt.Sprintf("%+v, want %s", a, after)
		})
		clustertest.Exec(t, p.standby, "postgres", "SELECT pg_drop_replication_slot('sub')")
		if major < 18 {
			p.slot(t, "sub", StatePending, ReasonPrepared)
		}
		finish(p.primary, "COMMIT", 1)
		p.slot(t, "sub", StateReady, ReasonNone)
		waitFor(t, subscriber, 1)

		// Prepared now, finished on the new primary.
		prepare(p.primary, 2)
		prepare(p.primary, 3)
		poll.Require(t, 30*time.Second, "the subscriber to have prepared both", func(context.Context) (bool, string) {
			n := clustertest.Value[int64](t, subscriber, "postgres", "SELECT count(*) FROM pg_prepared_xacts")
			return n == 2, fmt.Sprint(n)
		})
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(t)
		clustertest.Exec(t, subscriber, "postgres", fmt.Sprintf("ALTER SUBSCRIPTION sub CONNECTION '%s'", p.standby.Conninfo("postgres")))
		finish(p.standby, "COMMIT", 2)
		finish(p.standby, "ROLLBACK", 3)
		prepare(p.standby, 4)
		finish(p.standby, "COMMIT", 4)
		clustertest.Exec(t, p.standby, "postgres", "INSERT INTO t VALUES (5, 'plain')")
		for _, i := range []int{2, 4, 5} {
			waitFor(t, subscriber, i)
		}
		if n := clustertest.Value[int64](t, subscriber, "postgres", "SELECT count(*) FROM t WHERE i = 3"); n != 0 {
			t.Error("a transaction that was rolled back has arrived")
		}
		if n := clustertest.Value[int64](t, subscriber, "postgres", "SELECT count(*) FROM pg_prepared_xacts"); n != 0 {
			t.Errorf("the subscriber keeps %d prepared transactions", n)
		}
	})
}

func waitFor(t *testing.T, s *cluster.Server, i int) {
	t.Helper()
	poll.Require(t, 30*time.Second, fmt.Sprintf("row %d on %s", i, s.Name()), func(context.Context) (bool, string) {
		n := clustertest.Value[int64](t, s, "postgres", "SELECT count(*) FROM t WHERE i = $1", i)
		return n == 1, fmt.Sprint(n)
	})
}
