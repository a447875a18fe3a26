package decoder

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// The settings by which a server itself gives up slots, on either side: each
// invalidation is told in PostgreSQL's word, one on the standby is made good, one
// upstream is not, and a slot that is only idle is touched in time.
func TestSlotsThatTheServerGivesUp(t *testing.T) {
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		primary := clustertest.Primary(t, major, cluster.Config{Name: "a", InitdbArgs: []string{"--wal-segsize=1"},
			Settings: map[string]string{"min_wal_size": "2MB", "max_wal_size": "4MB"}})
		clustertest.Exec(t, primary, "postgres", "CREATE TABLE t (i int PRIMARY KEY, v text)")
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "b", SlotName: "b"})
		p := &pair{t: t, primary: primary, standby: standby, dir: t.TempDir(), source: startSource(t, primary)}
		p.runningHelper = startHelper(t, standby, p.source, p.dir, DefaultSettings())
		p.waitAnchor(t)
		p.create(t, "postgres", "s")
		p.slot(t, "s", StateReady, ReasonNone)
		said := func(reason Reason) {
			t.Helper()
			poll.Require(t, 60*time.Second, string(reason)+" to be told", func(context.Context) (bool, string) {
				return strings.Contains(p.log.String(), `"reason":"`+string(reason)+`"`), ""
			})
		}
		// wal writes some segments, and lets both servers remove what they need no more.
		wal := func() {
			t.Helper()
			for range 4 {
				clustertest.Exec(t, primary, "postgres", "SELECT pg_logical_emit_message(false, 'x', repeat('x', 900000))", "SELECT pg_switch_wal()")
			}
			clustertest.Exec(t, primary, "postgres", "CHECKPOINT")
			if err := primary.WaitForStandby(t.Context(), standby); err != nil {
				t.Fatal(err)
			}
			clustertest.Exec(t, standby, "postgres", "CHECKPOINT")
		}
		lost := func(s *cluster.Server, slot string) func(context.Context) (bool, string) {
			return func(context.Context) (bool, string) {
				wal()
				return clustertest.Value[bool](t, s, "postgres",
					"SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = $1 AND wal_status = 'lost'", slot), ""
			}
		}

		// The subscriber is down, and the standby is the first to have enough of it.
		p.stop()
		setConf(t, standby, "max_slot_wal_keep_size", "1MB")
		poll.Require(t, 60*time.Second, "the standby's slot to be lost", lost(standby, "s"))
		setConf(t, standby, "max_slot_wal_keep_size", "-1")
		p.runningHelper = startHelper(t, standby, p.source, p.dir, DefaultSettings())
		said(ReasonWALRemoved)
		p.recovers(t, "s")

		// The primary has enough of it.
		p.create(t, "postgres", "late")
		p.slot(t, "late", StateReady, ReasonNone)
		setConf(t, primary, "max_slot_wal_keep_size", "1MB")
		poll.Require(t, 60*time.Second, "the primary's slot to be lost", lost(primary, "late"))
		setConf(t, primary, "max_slot_wal_keep_size", "-1")
		p.slot(t, "late", StateBlocked, ReasonUpstreamInvalidated)
		gone(t, standby, "late")

		if major < 18 {
			return // no idle_replication_slot_timeout
		}
		clustertest.Exec(t, primary, "postgres", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_type = 'logical'")
		gone(t, standby, "s")
		p.create(t, "postgres", "idle")
		p.slot(t, "idle", StateReady, ReasonNone)
		const timeout = 9 * time.Second // the helper touches a slot after a third of it
		setConf(t, standby, "idle_replication_slot_timeout", fmt.Sprint(timeout))
		idle := func(name string, done func() bool) {
			t.Helper()
			poll.Require(t, 60*time.Second, name, func(context.Context) (bool, string) {
				clustertest.Exec(t, primary, "postgres", "SELECT pg_log_standby_snapshot()", "CHECKPOINT")
				clustertest.Exec(t, standby, "postgres", "CHECKPOINT") // what times slots out
				return done(), clustertest.Value[string](t, standby, "postgres",
					`SELECT coalesce((SELECT concat_ws(' ', inactive_since, invalidation_reason) FROM pg_replication_slots
						WHERE slot_name = 'idle'), 'it is gone')`)
			})
		}
		began := time.Now()
		idle("half as long again to pass", func() bool { return time.Since(began) > timeout*3/2 })
		p.slot(t, "idle", StateReady, ReasonNone)
		if strings.Contains(p.log.String(), `"reason":"`+string(ReasonIdleTimeout)+`"`) {
			t.Error("it was invalidated while the helper was running")
		}
		p.source.pause(true) // as in an outage of the relay
		p.slot(t, "idle", StatePending, ReasonUpstreamStale)
		began = time.Now()
		idle("half as long again to pass without a message", func() bool { return time.Since(began) > timeout*3/2 })
		p.slot(t, "idle", StatePending, ReasonUpstreamStale)
		p.source.pause(false)
		p.slot(t, "idle", StateReady, ReasonNone)
		if strings.Contains(p.log.String(), `"reason":"`+string(ReasonIdleTimeout)+`"`) {
			t.Error("it was invalidated while no message came")
		}
		p.stop()
		idle("the slot to be invalidated without the helper", func() bool {
			return clustertest.Value[bool](t, standby, "postgres",
				"SELECT count(*) = 1 FROM pg_replication_slots WHERE slot_name = 'idle' AND invalidation_reason = 'idle_timeout'")
		})
		setConf(t, standby, "idle_replication_slot_timeout", "0")
		p.runningHelper = startHelper(t, standby, p.source, p.dir, DefaultSettings())
		said(ReasonIdleTimeout)
		p.recovers(t, "idle")
	})
}

// Databases are dropped on the primary while their slots are written to, confirmed
// and advanced. Replaying that, a server whose slot is in use from another database
// shuts down; ours goes on, the slots go with their databases, and the others do not
// notice.
func TestDatabasesAreDroppedUnderLoad(t *testing.T) {
	const databases, dropped = 6, 4
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		settings := DefaultSettings()
		settings.AdvanceInterval, settings.AdvanceShare = time.Millisecond, 0 // always in the middle of something
		p := newPairWith(t, major, settings)
		p.waitAnchor(t)
		name := func(i int) string { return fmt.Sprint("d", i) }
		for i := range databases {
			clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE "+name(i))
			clustertest.Exec(t, p.primary, name(i), "CREATE TABLE t (i serial)")
			p.create(t, name(i), name(i))
		}
		for i := range databases {
			p.slot(t, name(i), StateReady, ReasonNone)
		}
		started := clustertest.Value[time.Time](t, p.standby, "postgres", "SELECT pg_postmaster_start_time()")
		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for i := range databases {
			load.Go(func() {
				for ctx.Err() == nil { // ends with its database
					err := p.primary.Exec(ctx, name(i), "INSERT INTO t SELECT FROM generate_series(1, 200)",
						fmt.Sprintf("SELECT pg_replication_slot_advance('%s', pg_current_wal_lsn())", name(i)))
					if err != nil {
						return
					}
				}
			})
		}
		for i := range dropped {
			moved := clustertest.Value[string](t, p.standby, "postgres",
				"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", name(i))
			poll.Require(t, 30*time.Second, "the slot to be on the move", func(context.Context) (bool, string) {
				now := clustertest.Value[string](t, p.standby, "postgres",
					"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", name(i))
				return now != moved, now
			})
			poll.Require(t, 30*time.Second, "the database to be dropped", func(ctx context.Context) (bool, string) {
				err := p.primary.Exec(ctx, "postgres", "DROP DATABASE "+name(i)+" WITH (FORCE)")
				return err == nil, fmt.Sprint(err) // its slot may be in use for a moment
			})
		}
		stop()
		load.Wait()
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		for i := range dropped {
			gone(t, p.standby, name(i))
		}
		for i := dropped; i < databases; i++ {
			p.slot(t, name(i), StateReady, ReasonNone)
		}
		if now := clustertest.Value[time.Time](t, p.standby, "postgres", "SELECT pg_postmaster_start_time()"); !now.Equal(started) {
			t.Errorf("the standby was started at %s, and again at %s", started, now)
		}
	})
}
