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

// recovers waits until a slot is ready while its subscriber goes on.
func (p *pair) recovers(t *testing.T, slot string) {
	t.Helper()
	poll.Require(t, 60*time.Second, slot+" to be ready while its subscriber goes on", func(context.Context) (bool, string) {
		clustertest.Exec(t, p.primary, "postgres", "SELECT txid_current()", "SELECT pg_log_standby_snapshot()",
			fmt.Sprintf("SELECT pg_replication_slot_advance('%s', pg_current_wal_lsn())", slot))
		st := p.helper.Status()
		for _, s := range st.Slots {
			if s.Name == slot {
				return s.State == StateReady, fmt.Sprintf("%+v, anchor %+v", s, st.Anchor)
			}
		}
		return false, fmt.Sprintf("not there; %s %s", st.Reason, st.Detail)
	})
}

func (p *pair) create(t *testing.T, database, slot string) {
	t.Helper()
	clustertest.Exec(t, p.primary, database, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
}

// PostgreSQL's own slot sync worker on the same standby: slots with failover are
// left to it from the moment it is turned on, and it is not stopped by ours. The
// others stay the helper's. After a failover all of them are usable (I-16).
func TestBesideTheSlotSyncWorker(t *testing.T) {
	for _, major := range clustertest.Majors(t) {
		if major < 17 {
			continue // it has no such worker
		}
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, major)
			p.waitAnchor(t)
			p.create(t, "postgres", "plain")
			clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('flagged', 'test_decoding', failover => true)")
			p.slot(t, "plain", StateReady, ReasonNone)
			p.slot(t, "flagged", StateReady, ReasonNone)

			setConf(t, p.standby, "sync_replication_slots", "on")
			p.slot(t, "flagged", StateBlocked, ReasonSlotSync)
			poll.Require(t, 90*time.Second, "the worker to have the slot", func(context.Context) (bool, string) {
				clustertest.Exec(t, p.primary, "postgres", "SELECT pg_log_standby_snapshot()",
					"SELECT pg_replication_slot_advance(s, pg_current_wal_lsn()) FROM unnest(ARRAY['plain', 'flagged']) s")
				return clustertest.Value[bool](t, p.standby, "postgres",
					"SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = 'flagged' AND synced AND NOT temporary"), p.standby.LogTail(3)
			})
			p.slot(t, "flagged", StateBlocked, ReasonSlotSync)
			p.recovers(t, "plain")
			clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t VALUES (1, 'after')")
			if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
				t.Fatal(err)
			}
			if err := p.primary.Kill9(); err != nil {
				t.Fatal(err)
			}
			report := p.promote(t)
			if len(report.Slots) != 1 || report.Slots[0].Name != "plain" || !report.Slots[0].Usable {
				t.Errorf("report %+v", report.Slots)
			}
			for _, slot := range []string{"plain", "flagged"} {
				if n := clustertest.Value[int64](t, p.standby, "postgres",
					"SELECT count(*) FROM pg_logical_slot_get_changes($1, NULL, NULL) WHERE data LIKE '%after%'", slot); n != 1 {
					t.Errorf("slot %s gives the row %d times", slot, n)
				}
			}
		})
	}
}

// Another program that manages slots on the standby, by what it does to them: the
// statements are those of Patroni and of pg_failover_slots. A slot that is dropped or
// moved again and again is left to it, with a reason and a cure; the slots beside it
// do not notice (I-9, I-11).
func TestBesideAnotherSlotManager(t *testing.T) {
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		p := newPair(t, major)
		clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE closed")
		p.waitAnchor(t)
		for _, slot := range []string{"good", "dropped", "moved"} {
			p.create(t, "postgres", slot)
			p.slot(t, slot, StateReady, ReasonNone)
		}
		// until lets the other program act until the helper lets go of the slot.
		until := func(slot string, act func()) {
			t.Helper()
			poll.Require(t, 60*time.Second, slot+" to be left to the other program", func(context.Context) (bool, string) {
				act()
				for _, s := range p.helper.Status().Slots {
					if s.Name == slot {
						return s.State == StateBlocked && s.Reason == ReasonOtherManager && strings.Contains(s.Hint, "pg_failover_slots"), fmt.Sprintf("%+v", s)
					}
				}
				return false, "not there"
			})
			rows, _, err := readLedger(p.dir)
			if _, ours := rows.Slots[slot]; err != nil || ours {
				t.Errorf("%s is in the ledger: %t, %v", slot, ours, err)
			}
			p.slot(t, "good", StateReady, ReasonNone)
		}
		t.Run("one that drops what it does not know", func(t *testing.T) {
			until("dropped", func() { // patroni, SlotsHandler.drop_replication_slot
				clustertest.Exec(t, p.standby, "postgres", `WITH slots AS (SELECT slot_name, active FROM pg_replication_slots
					WHERE slot_name = 'dropped'), dropped AS (SELECT pg_drop_replication_slot(slot_name) FROM slots WHERE NOT active)
					SELECT count(*) FROM dropped`)
			})
			if n := strings.Count(p.log.String(), `"slot_name":"dropped","database":"postgres","confirmed_flush_lsn"`); n > 2*othersLimit {
				t.Errorf("it was made %d times", n)
			}
		})
		t.Run("one that moves it to where the primary's is", func(t *testing.T) {
			until("moved", func() { // pg_failover_slots, synchronize_one_slot
				clustertest.Exec(t, p.primary, "postgres", "SELECT txid_current()",
					"SELECT pg_replication_slot_advance('moved', pg_current_wal_lsn())")
				if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
					t.Fatal(err)
				}
				at := clustertest.Value[string](t, p.primary, "postgres", "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'moved'")
				// It may be gone, or in use for a moment: so is it for that program.
				_ = p.standby.Exec(t.Context(), "postgres", fmt.Sprintf("SELECT pg_replication_slot_advance('moved', '%s')", at))
			})
		})
		t.Run("a slot of another name is nobody's business", func(t *testing.T) {
			clustertest.Exec(t, p.standby, "postgres", "SELECT pg_copy_logical_replication_slot(slot_name, 'theirs', false, 'test_decoding') "+
				"FROM pg_replication_slots WHERE temporary")
			p.create(t, "postgres", "ours")
			p.slot(t, "ours", StateReady, ReasonNone)
			if n := clustertest.Value[int64](t, p.standby, "postgres", "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'theirs'"); n != 1 {
				t.Error("it is gone")
			}
		})
		t.Run("a slot that was there before is taken over when it can be decoded from here", func(t *testing.T) {
			clustertest.Exec(t, p.standby, "postgres", "SELECT pg_copy_logical_replication_slot(slot_name, 'found', false, 'test_decoding') "+
				"FROM pg_replication_slots WHERE temporary")
			p.create(t, "postgres", "found")
			p.slot(t, "found", StatePending, ReasonFound)
			p.recovers(t, "found")
		})
		t.Run("a database that takes no connections", func(t *testing.T) {
			p.create(t, "closed", "shut")
			p.slot(t, "shut", StateReady, ReasonNone)
			clustertest.Exec(t, p.primary, "postgres", "ALTER DATABASE closed ALLOW_CONNECTIONS false")
			if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
				t.Fatal(err)
			}
			clustertest.Exec(t, p.standby, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'closed'",
				"SELECT pg_drop_replication_slot('shut')")
			if s := p.slot(t, "shut", StateBlocked, ReasonDatabaseRefused); !strings.Contains(s.Hint, "ALLOW_CONNECTIONS") {
				t.Errorf("hint %q", s.Hint)
			}
			p.slot(t, "good", StateReady, ReasonNone)
			clustertest.Exec(t, p.primary, "postgres", "ALTER DATABASE closed ALLOW_CONNECTIONS true")
			p.slot(t, "shut", StateReady, ReasonNone)
		})
		t.Run("hot_standby is turned off", func(t *testing.T) { hotStandbyOff(t, p) })
	})
}

// A standby with a logical slot does not start with hot_standby = off. The helper
// says that it is away, and takes up where it was when it is back.
func hotStandbyOff(t *testing.T, p *pair) {
	if err := p.standby.Stop(t.Context(), cluster.Fast); err != nil {
		t.Fatal(err)
	}
	setConf(t, p.standby, "hot_standby", "off")
	if err := p.standby.Start(t.Context()); err == nil || !strings.Contains(p.standby.Log(), `"hot_standby" = "off"`) {
		t.Errorf("the standby was started: %v\n%s", err, p.standby.LogTail(5))
	}
	p.slot(t, "good", StatePending, ReasonStandbyUnreachable)
	setConf(t, p.standby, "hot_standby", "on")
	if err := p.standby.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.recovers(t, "good")
}
