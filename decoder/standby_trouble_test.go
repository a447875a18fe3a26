package decoder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// Each of these is one slot's trouble, and the other slots do not notice (I-11).
func TestOneSlotsTroubleIsItsOwn(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE other", "CREATE DATABASE doomed")
		p.waitAnchor(t)
		create := func(db, slot, rest string) {
			t.Helper()
			clustertest.Exec(t, p.primary, db, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', %s)", slot, rest))
		}
		create("postgres", "good", "'pgoutput'")
		p.slot(t, "good", StateReady, ReasonNone)

		t.Run("a foreign slot of the same name is left alone", func(t *testing.T) {
			clustertest.Exec(t, p.standby, "other", "SELECT pg_copy_logical_replication_slot(slot_name, 'taken', false, 'test_decoding') "+
				"FROM pg_replication_slots WHERE temporary")
			create("postgres", "taken", "'pgoutput'")
			p.slot(t, "taken", StateBlocked, ReasonNameClash)
			if db := clustertest.Value[string](t, p.standby, "postgres",
				"SELECT database FROM pg_replication_slots WHERE slot_name = 'taken'"); db != "other" {
				t.Errorf("the foreign slot is of database %q now", db)
			}
			clustertest.Exec(t, p.standby, "other", "SELECT pg_drop_replication_slot('taken')")
			p.slot(t, "taken", StateReady, ReasonNone)
		})
		t.Run("a two_phase slot is made with the flag or not at all", func(t *testing.T) {
			create("postgres", "twophase", "'test_decoding', false, true")
			state, reason := StateReady, ReasonNone
			if major < 18 {
				state, reason = StateBlocked, ReasonTwoPhase
			}
			p.slot(t, "twophase", state, reason)
			if n := clustertest.Value[int64](t, p.standby, "postgres",
				"SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'twophase' AND two_phase"); n != 0 != (major == 18) {
				t.Errorf("%d slots with two_phase on the standby", n)
			}
		})
		t.Run("a slot consumed on the standby is made again", func(t *testing.T) {
			create("postgres", "nosy", "'test_decoding'")
			p.slot(t, "nosy", StateReady, ReasonNone)
			clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
			if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
				t.Fatal(err)
			}
			poll.Require(t, 30*time.Second, "the slot to be consumed", func(ctx context.Context) (bool, string) {
				err := p.standby.Exec(ctx, "postgres", "SELECT count(*) FROM pg_logical_slot_get_changes('nosy', NULL, NULL)")
				return err == nil, fmt.Sprint(err) // the helper may be advancing it
			})
			poll.Require(t, 30*time.Second, "the slot to be dropped for that reason", func(context.Context) (bool, string) {
				return strings.Contains(p.log.String(), string(ReasonConsumedOnStandby)), ""
			})
			if s := p.slot(t, "nosy", StateReady, ReasonNone); s.Local > s.Upstream || s.Local == 0 {
				t.Errorf("ready at %v, its subscriber is at %v", s.Local, s.Upstream)
			}
		})
		t.Run("an upstream slot dropped and made again", func(t *testing.T) {
			create("postgres", "again", "'pgoutput'")
			p.slot(t, "again", StateReady, ReasonNone)
			clustertest.Exec(t, p.primary, "postgres", "SELECT pg_drop_replication_slot('again')")
			gone(t, p.standby, "again")
			create("other", "again", "'test_decoding'")
			if s := p.slot(t, "again", StateReady, ReasonNone); s.Database != "other" || s.Plugin != "test_decoding" {
				t.Errorf("got %+v", s)
			}
		})
		t.Run("a dropped database takes its slot and nothing else", func(t *testing.T) {
			create("doomed", "doomed", "'test_decoding'")
			p.slot(t, "doomed", StateReady, ReasonNone)
			clustertest.Exec(t, p.primary, "doomed", "SELECT pg_drop_replication_slot('doomed')")
			clustertest.Exec(t, p.primary, "postgres", "DROP DATABASE doomed")
			gone(t, p.standby, "doomed")
			if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
				t.Fatal(err)
			}
		})
		t.Run("the database's statement_timeout does not break the helper", func(t *testing.T) {
			clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE hasty", "ALTER DATABASE hasty SET statement_timeout = '1ms'",
				"ALTER DATABASE hasty SET lock_timeout = '1ms'")
			create("postgres", "patient", "'pgoutput'")
			p.slot(t, "patient", StateReady, ReasonNone)
			clustertest.Exec(t, p.primary, "hasty", "SET statement_timeout = 0",
				"SELECT pg_create_logical_replication_slot('hasty', 'test_decoding')")
			p.slot(t, "hasty", StateReady, ReasonNone)
		})
		p.slot(t, "good", StateReady, ReasonNone)
		for _, forbidden := range []string{"PANIC", "FATAL:  terminating walreceiver"} {
			if strings.Contains(p.standby.Log(), forbidden) {
				t.Errorf("the standby's log has %q", forbidden)
			}
		}
	})
}

// I-3: without protection nothing is ready; protection that broke is not trusted
// again, and what PostgreSQL invalidated is said in its own word and rebuilt.
func TestProtectionMustBeProven(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		setConf(t, p.standby, "hot_standby_feedback", "off")
		poll.Require(t, 20*time.Second, "the slot not to be ready", func(context.Context) (bool, string) {
			for _, s := range p.helper.Status().Slots {
				if s.Name == "s" {
					return s.State != StateReady, fmt.Sprintf("%+v", s)
				}
			}
			return false, "not there"
		})
		poll.Require(t, 20*time.Second, "the upstream to be without catalog_xmin", func(context.Context) (bool, string) {
			return clustertest.Value[bool](t, p.primary, "postgres",
				"SELECT catalog_xmin IS NULL FROM pg_replication_slots WHERE slot_name = 'b'"), ""
		})
		reason := ReasonRowsRemoved
		if major == 16 {
			reason = ReasonConflicting
		}
		poll.Require(t, 30*time.Second, "the invalidation to be reported", func(context.Context) (bool, string) {
			// The upstream's own slot holds catalog rows back too, until it has moved on.
			clustertest.Exec(t, p.primary, "postgres", "CREATE TABLE y ()", "DROP TABLE y", "SELECT pg_log_standby_snapshot()",
				"SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())", "VACUUM pg_class", "VACUUM pg_attribute")
			return strings.Contains(p.log.String(), `"reason":"`+string(reason)+`"`), ""
		})
		setConf(t, p.standby, "hot_standby_feedback", "on")
		clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t VALUES (1)")
		poll.Require(t, 30*time.Second, "the slot to be ready again once its subscriber is past the new anchor",
			func(context.Context) (bool, string) {
				clustertest.Exec(t, p.primary, "postgres", "SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())")
				for _, s := range p.helper.Status().Slots {
					if s.Name == "s" {
						return s.State == StateReady, fmt.Sprintf("%+v %+v", s, p.helper.Status().Anchor)
					}
				}
				return false, "not there"
			})
	})
}

func setConf(t *testing.T, s *cluster.Server, name, value string) {
	t.Helper()
	if err := s.SetConf(t.Context(), name, value); err != nil {
		t.Fatal(err)
	}
}

// The standby has not replayed what the subscriber confirmed: the slot stays at
// R, is ready all the same, and nobody spins.
func TestReplayPaused(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		clustertest.Exec(t, p.standby, "postgres", "SELECT pg_wal_replay_pause()")
		poll.Require(t, 10*time.Second, "replay to pause", func(context.Context) (bool, string) {
			return clustertest.Value[string](t, p.standby, "postgres", "SELECT pg_get_wal_replay_pause_state()") == "paused", ""
		})
		clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t SELECT g FROM generate_series(1, 1000) g",
			"SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")
		poll.Require(t, 30*time.Second, "the lag to show", func(context.Context) (bool, string) {
			for _, s := range p.helper.Status().Slots {
				if s.Name == "s" && s.Lag > 0 {
					return s.State == StateReady && s.Local <= p.helper.Status().Standby.ReplayLSN, fmt.Sprintf("%+v", s)
				}
			}
			return false, "no lag"
		})
		clustertest.Exec(t, p.standby, "postgres", "SELECT pg_wal_replay_resume()")
		poll.Require(t, 30*time.Second, "the slot to reach its target", func(context.Context) (bool, string) {
			for _, s := range p.helper.Status().Slots {
				if s.Name == "s" {
					return s.Lag == 0 && s.State == StateReady, fmt.Sprintf("%+v", s)
				}
			}
			return false, "not there"
		})
	})
}

// An open transaction delays the anchor, is named, and holds up nothing else.
func TestLongTransactionIsNamed(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{Name: "a"})
		clustertest.Exec(t, primary, "postgres", "CREATE TABLE t (i int PRIMARY KEY, v text)")
		conn, err := primary.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('old', 'test_decoding')")
		for _, s := range []string{"BEGIN", "INSERT INTO t VALUES (0, 'long')"} {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "b", SlotName: "b"})
		source := startSource(t, primary)
		h := startHelper(t, standby, source, t.TempDir(), DefaultSettings())
		created := make(chan error, 1)
		go func() {
			created <- primary.Exec(context.WithoutCancel(t.Context()), "postgres",
				"SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		}()
		h.slot(t, "s", StatePending, ReasonBeingCreated)
		poll.Require(t, 30*time.Second, "the anchor's creation to begin", func(context.Context) (bool, string) {
			a := h.helper.Status().Anchor
			return a.Phase == "creating", fmt.Sprintf("%+v", a)
		})
		xid := clustertest.Value[string](t, primary, "postgres",
			"SELECT backend_xid::text FROM pg_stat_activity WHERE pid = $1", conn.PgConn().PID())
		if s := h.slot(t, "old", StatePending, ReasonWaitingTransaction); !strings.Contains(s.Detail, "xid "+xid+" ") {
			t.Errorf("waits for %q, want xid %s", s.Detail, xid)
		}
		if a := h.helper.Status().Anchor; a.Reason != ReasonWaitingTransaction || !strings.Contains(a.Detail, "xid "+xid+" ") {
			t.Errorf("of the anchor it says %+v, want xid %s", a, xid)
		}
		for _, s := range []string{"INSERT INTO t VALUES (1, 'long')", "COMMIT"} {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-created; err != nil {
			t.Fatal(err)
		}
		h.waitAnchor(t)
		// The subscriber may have been born before the anchor: it has to confirm once.
		clustertest.Exec(t, primary, "postgres", "INSERT INTO t VALUES (2, 'after')",
			"SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")
		h.slot(t, "s", StateReady, ReasonNone)
	})
}
