package relay_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

func subscribed(t testing.TB, source *relay.SlotSource) *sink {
	t.Helper()
	s := new(sink)
	t.Cleanup(source.Subscribe(s.Deliver))
	return s
}

func slotNames(m *protocol.SlotMessage) []string {
	names := []string{}
	for _, s := range m.Slots {
		names = append(names, s.Database+"/"+s.Name)
	}
	slices.Sort(names)
	return names
}

// All that a message tells, with server defaults that are against us, and
// databases whose names need quoting.
func TestSlotSourceReadsCatalog(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		primary := clustertest.Primary(t, major, cluster.Config{Settings: map[string]string{"max_slot_wal_keep_size": "1MB"}})
		clustertest.Exec(t, primary, "postgres", "CREATE ROLE ferry LOGIN IN ROLE pg_read_all_stats")
		for _, setting := range []string{
			"statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_session_timeout = '80ms'",
			"default_transaction_isolation = 'serializable'", "search_path = 'nowhere'", "datestyle = 'german'",
		} {
			clustertest.Exec(t, primary, "postgres", "ALTER ROLE ferry SET "+setting)
		}
		odd := []string{"a b", "q'uote", "Ünï", `"`, strings.Repeat("x", 63)}
		all := map[string]bool{}
		for i, name := range odd {
			clustertest.Exec(t, primary, "postgres", `CREATE DATABASE "`+strings.ReplaceAll(name, `"`, `""`)+`"`)
			clustertest.Exec(t, primary, name, "SET statement_timeout = 0",
				fmt.Sprintf("SELECT pg_create_logical_replication_slot('s%d', 'pgoutput', false, true)", i))
			all[fmt.Sprintf("%s/s%d", name, i)] = true
		}
		source := startSource(t, primary, relay.SlotSourceConfig{
			Conninfo: primary.Conninfo("postgres") + " user=ferry", PollInterval: 100 * time.Millisecond})
		messages := subscribed(t, source)
		want := slices.Sorted(maps.Keys(all))
		m := messages.wait(t, "all slots", func(m *protocol.SlotMessage) bool { return slices.Equal(slotNames(m), want) })
		if !m.Slots[0].TwoPhase || major >= 18 && m.Slots[0].TwoPhaseAt == 0 {
			t.Errorf("slot %+v", m.Slots[0])
		}

		conn, err := primary.Connect(ctx, "a b")
		must(t, err)
		defer conn.Close(context.Background())
		run := func(sql string) {
			t.Helper()
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		run("SELECT pg_create_logical_replication_slot('temp', 'pgoutput', true)")
		run("CREATE TABLE t (n int)")
		run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'it''s'")
		run("BEGIN; INSERT INTO t VALUES (2)")
		m = messages.wait(t, "transactions", func(m *protocol.SlotMessage) bool {
			return len(m.PreparedTransactions) == 1 && len(m.OpenTransactions) == 1
		})
		if p, o := m.PreparedTransactions[0], m.OpenTransactions[0]; p.GID != "it's" || p.Database != "a b" || p.Xid == 0 ||
			o.Database != "a b" || o.Xid <= p.Xid || o.PID != int32(conn.PgConn().PID()) {
			t.Errorf("%+v", m)
		}
		run("ROLLBACK")
		if slices.Contains(slotNames(m), "a b/temp") {
			t.Error("a temporary slot is in the message")
		}

		must(t, source.SetFilters(relay.SlotFilters{Exclude: []string{"s0"}, Databases: []string{"Ü*", "a b"}}))
		messages.wait(t, "other filters", func(m *protocol.SlotMessage) bool { return slices.Equal(slotNames(m), []string{"Ünï/s2"}) })

		// Its WAL is gone: invalid at once.
		for range 4 {
			clustertest.Exec(t, primary, "postgres", "SELECT pg_switch_wal()", "CREATE TABLE x (n int)", "DROP TABLE x")
		}
		clustertest.Exec(t, primary, "postgres", "CHECKPOINT")
		messages.wait(t, "an invalid slot", func(m *protocol.SlotMessage) bool {
			return len(m.Slots) == 1 && m.Slots[0].InvalidationReason == "wal_removed"
		})
		if log := primary.Log(); strings.Contains(log, "slotferry relay ERROR") || strings.Contains(log, "slotferry relay FATAL") {
			t.Error("the slot source met errors")
		}
	})
}

// A slot born after a message is never behind the position of that message.
func TestSlotIsNeverBehindEarlierMessage(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		source := startSource(t, primary, relay.SlotSourceConfig{PollInterval: time.Millisecond, Heartbeat: time.Millisecond})
		messages := subscribed(t, source)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { traffic(t, primary, 40) })
		for i := range 15 {
			clustertest.Exec(t, primary, "postgres",
				fmt.Sprintf("SELECT pg_create_logical_replication_slot('s%d', 'test_decoding')", i))
		}
		messages.wait(t, "all slots", func(m *protocol.SlotMessage) bool { return len(m.Slots) == 15 })
		messages.mu.Lock()
		defer messages.mu.Unlock()
		for i, m := range messages.list[1:] {
			before := messages.list[i]
			known := slotNames(before)
			for _, s := range m.Slots {
				if slices.Contains(known, s.Database+"/"+s.Name) {
					continue
				}
				if s.ConfirmedFlushLSN != 0 && s.ConfirmedFlushLSN < before.CaptureLSN ||
					s.RestartLSN != 0 && s.RestartLSN < before.CaptureLSN {
					t.Errorf("%s was born at %s, behind the message of %s that lacks it", s.Name, s.RestartLSN, before.CaptureLSN)
				}
			}
			if m.Sequence != before.Sequence+1 || m.Epoch != before.Epoch {
				t.Errorf("message %d of %d follows %d of %d", m.Sequence, m.Epoch, before.Sequence, before.Epoch)
			}
		}
	})
}

// While there is no connection there are no messages, old ones neither; the
// next connection has another epoch. Each change of state is one line.
func TestSlotSourceReconnects(t *testing.T) {
	primary := clustertest.Primary(t, 17, cluster.Config{})
	log := new(testLog)
	source, err := relay.NewSlotSource(relay.SlotSourceConfig{
		Conninfo: primary.Conninfo("postgres"), Logger: zerolog.New(log)})
	must(t, err)
	runUntilDone(t, "slot source", log, source.Run)
	messages := subscribed(t, source)
	first := messages.wait(t, "anything", func(*protocol.SlotMessage) bool { return true })
	must(t, primary.Stop(t.Context(), cluster.Fast))
	require(t, "the loss", func(context.Context) (bool, string) {
		st := source.Status()
		return !st.Connected && strings.Contains(st.Error, "refused"), fmt.Sprintf("%+v", st)
	})
	if _, n := subscribed(t, source).newest(); n != 0 {
		t.Error("a message of a lost connection was delivered")
	}
	must(t, primary.Start(t.Context()))
	second := messages.wait(t, "another epoch", func(m *protocol.SlotMessage) bool { return m.Epoch != first.Epoch })
	if second.Sequence == 0 || second.PostmasterStartTime <= first.PostmasterStartTime || second.SystemIdentifier != first.SystemIdentifier {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if n := strings.Count(log.String(), "slots cannot be read"); n < 1 || n > 4 {
		t.Errorf("%d lines about the loss:\n%s", n, log)
	}
}

// Requests for a snapshot are coalesced, and bounded in rate.
func TestSnapshotRate(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		source := startSource(t, primary, relay.SlotSourceConfig{SnapshotInterval: 300 * time.Millisecond})
		began := time.Now()
		require(t, "three snapshots", func(context.Context) (bool, string) {
			for range 100 {
				source.RequestSnapshot()
			}
			return source.Status().Snapshots >= 3, fmt.Sprintf("%+v", source.Status())
		})
		if d := time.Since(began); d < 600*time.Millisecond {
			t.Errorf("three snapshots in %s", d)
		}
	})
}

// On a standby the source tells what the standby's own helper knows, and makes
// no snapshots.
func TestSlotSourceOnStandby(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby"})
		source := startSource(t, standby, relay.SlotSourceConfig{
			Heartbeat: 100 * time.Millisecond,
			Readiness: func(context.Context) (map[string]protocol.Readiness, error) {
				return map[string]protocol.Readiness{"s": protocol.ReadinessReady}, nil
			},
		})
		messages := subscribed(t, source)
		created := make(chan error, 1)
		go func() {
			created <- standby.Exec(t.Context(), "postgres", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
		}()
		require(t, "a slot on the standby", func(ctx context.Context) (bool, string) {
			if err := primary.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot()"); err != nil {
				return false, err.Error()
			}
			select {
			case err := <-created:
				must(t, err)
				return true, ""
			default:
				return false, "waits"
			}
		})
		source.RequestSnapshot()
		m := messages.wait(t, "readiness", func(m *protocol.SlotMessage) bool {
			return len(m.Slots) == 1 && m.Slots[0].Readiness == protocol.ReadinessReady
		})
		if !m.InRecovery || m.TimelineID != 1 || m.CaptureLSN == 0 {
			t.Errorf("message %+v", m)
		}
		if st := source.Status(); st.Snapshots != 0 || st.SnapshotError != "" {
			t.Errorf("status %+v", st)
		}
	})
}
