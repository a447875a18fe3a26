package relay_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// pg_basebackup in its ways through two hops; the manifest says whether each byte
// is right.
func TestBaseBackup(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		server := passwordServer(t, major)
		_, strip, _ := throughTwoHops(t, server)
		traffic(t, server, 20)
		for name, args := range map[string][]string{
			"stream":     {"-X", "stream", "-C", "-S", "made"},
			"fetch":      {"-X", "fetch"},
			"compressed": {"-X", "stream", "--compress=server-gzip:1"},
			"checksums":  {"-X", "none", "--manifest-checksums=SHA512"},
		} {
			backup := filepath.Join(t.TempDir(), name)
			runCommand(t, server, "pg_basebackup", append(args, "-D", backup, "-d", via(strip, ""), "-c", "fast")...)
			runCommand(t, server, "pg_verifybackup", "--no-parse-wal", backup)
		}
		if n := clustertest.Value[int](t, server, "postgres", "SELECT count(*)::int FROM pg_replication_slots WHERE slot_name = 'made'"); n != 1 {
			t.Errorf("%d slots made", n)
		}
	})
}

// pgbench, pg_recvlogical and a subscription through the relay.
func TestLogicalClients(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		server := passwordServer(t, major)
		_, strip, _ := throughTwoHops(t, server)
		runCommand(t, server, "pgbench", "-q", "-i", via(strip, ""))
		for _, protocol := range []string{"simple", "prepared"} {
			runCommand(t, server, "pgbench", "-n", "-c", "4", "-t", "50", "-M", protocol, via(strip, ""))
		}
		if n := clustertest.Value[int](t, server, "postgres", "SELECT count(*)::int FROM pgbench_history"); n != 400 {
			t.Errorf("%d transactions, want 400", n)
		}

		runCommand(t, server, "pg_recvlogical", "-d", via(strip, ""), "-S", "l", "--create-slot", "-P", "test_decoding")
		clustertest.Exec(t, server, "postgres", "CREATE TABLE answer AS SELECT 42 AS n")
		end := clustertest.Value[string](t, server, "postgres", "SELECT pg_current_wal_lsn()::text")
		if out := runCommand(t, server, "pg_recvlogical", "-d", via(strip, ""), "-S", "l", "--start", "-E", end, "-f", "-"); !strings.Contains(out, "n[integer]:42") {
			t.Errorf("pg_recvlogical says %q", out)
		}

		clustertest.Exec(t, server, "postgres", "CREATE PUBLICATION p FOR TABLE answer")
		subscriber := clustertest.Primary(t, major, cluster.Config{Name: "subscriber"})
		clustertest.Exec(t, subscriber, "postgres", "CREATE TABLE answer (n int)", fmt.Sprintf(
			"CREATE SUBSCRIPTION s CONNECTION '%s' PUBLICATION p", via(strip, "password=secret")))
		clustertest.Exec(t, server, "postgres", "INSERT INTO answer VALUES (43)")
		require(t, "both rows at the subscriber", func(ctx context.Context) (bool, string) {
			n, err := cluster.QueryValue[int](ctx, subscriber, "postgres", "SELECT coalesce(sum(n), 0)::int FROM answer")
			return n == 85, fmt.Sprint(n, err)
		})
		clustertest.Exec(t, subscriber, "postgres", "DROP SUBSCRIPTION s")
	})
}

// PostgreSQL's own slot sync worker uses primary_conninfo, and so the same address
// as the walreceiver.
func TestSlotSyncWorker(t *testing.T) {
	for _, major := range clustertest.Majors(t) {
		if major < 17 {
			continue
		}
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			server := passwordServer(t, major)
			_, strip, _ := throughTwoHops(t, server)
			standby := clustertest.Standby(t, server, cluster.StandbyConfig{SlotName: "standby",
				PrimaryConninfo: via(strip, "application_name=standby password=secret"),
				Settings:        map[string]string{"sync_replication_slots": "on"}})
			clustertest.Exec(t, server, "postgres", "SELECT pg_create_logical_replication_slot('f', 'pgoutput', false, false, true)")
			require(t, "a synced slot", func(ctx context.Context) (bool, string) {
				_ = server.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot()")
				n, err := cluster.QueryValue[int](ctx, standby, "postgres", "SELECT count(*)::int FROM pg_replication_slots WHERE synced")
				return n == 1, fmt.Sprint(n, err)
			})
		})
	}
}

// Walreceivers and walsenders older than those that helpers serve.
func TestOldWalreceiver(t *testing.T) {
	for _, major := range []int{13, 14, 15} {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			server := clustertest.Primary(t, major, cluster.Config{})
			source := startSource(t, server, relay.SlotSourceConfig{PollInterval: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond})
			splice := startRelay(t, relay.Config{Upstream: server.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
			found := new(sink)
			strip := startRelay(t, relay.Config{Upstream: via(splice, ""), Mode: relay.ModeStrip, Sink: found})
			standby := clustertest.Standby(t, server, cluster.StandbyConfig{SlotName: "standby", Via: strip.addr})
			traffic(t, server, 20)
			must(t, server.WaitForStandby(t.Context(), standby))
			found.wait(t, "a message of that version", func(m *protocol.SlotMessage) bool {
				return m.ServerVersionNum/10000 == uint32(major)
			})
			if traces := segmentZero(t, standby); len(traces) > 0 {
				t.Errorf("traces of slot messages in pg_wal: %q", traces)
			}
		})
	}
}

// A server that never asks for a reply, and a walreceiver that never asks either:
// slot messages flow, nobody reconnects (wal_sender_timeout = 0).
func TestNobodyAsksForReply(t *testing.T) {
	server := clustertest.Primary(t, 17, cluster.Config{Settings: map[string]string{"wal_sender_timeout": "0", "wal_receiver_timeout": "0"}})
	source := startSource(t, server, relay.SlotSourceConfig{PollInterval: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond})
	splice := startRelay(t, relay.Config{Upstream: server.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
	found := new(sink)
	strip := startRelay(t, relay.Config{Upstream: via(splice, ""), Mode: relay.ModeStrip, Sink: found})
	standby := clustertest.Standby(t, server, cluster.StandbyConfig{SlotName: "standby", Via: strip.addr})
	must(t, server.WaitForStandby(t.Context(), standby))
	_, before := found.newest()
	require(t, "100 messages", func(context.Context) (bool, string) {
		_, n := found.newest()
		return n >= before+100, fmt.Sprint(n)
	})
	traffic(t, server, 5)
	must(t, server.WaitForStandby(t.Context(), standby))
	if n := strip.Status().Accepted; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// After a failover target_session_attrs leads new sessions, and the slot source,
// to the new primary.
func TestTargetSessionAttrs(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		first := clustertest.Primary(t, major, cluster.Config{})
		second := clustertest.Standby(t, first, cluster.StandbyConfig{SlotName: "standby"})
		upstream := fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%d,%d user=postgres dbname=postgres target_session_attrs=", second.Port(), first.Port())
		source := startSource(t, first, relay.SlotSourceConfig{Conninfo: upstream + "read-write"})
		r := startRelay(t, relay.Config{Upstream: upstream + "read-write", Mode: relay.ModeSplice, Slots: source})
		standbys := startRelay(t, relay.Config{Upstream: upstream + "standby", Mode: relay.ModePlain})
		port := func(r *runningRelay) string {
			return strings.TrimSpace(runCommand(t, first, "psql", "-XAtd", via(r, ""), "-c", "SELECT inet_server_port()"))
		}
		if got, want := port(r), fmt.Sprint(first.Port()); got != want {
			t.Errorf("read-write leads to %s, want %s", got, want)
		}
		if got, want := port(standbys), fmt.Sprint(second.Port()); got != want {
			t.Errorf("standby leads to %s, want %s", got, want)
		}
		must(t, first.Stop(ctx, cluster.Immediate))
		if _, err := login(ctx, via(r, "")); err == nil || !strings.Contains(explain(err), "target_session_attrs") {
			t.Errorf("with no primary: %v", err)
		}
		must(t, second.Promote(ctx))
		if got, want := port(r), fmt.Sprint(second.Port()); got != want {
			t.Errorf("after the failover read-write leads to %s, want %s", got, want)
		}
		require(t, "the slot source at the new primary", func(context.Context) (bool, string) {
			st := source.Status()
			return st.Connected && st.TimelineID == 2 && strings.HasSuffix(st.Upstream, fmt.Sprint(":", second.Port())), fmt.Sprintf("%+v", st)
		})
	})
}
