package main

import (
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// TestTrace streams physically, logically and slot state, and checks that
// nothing is left or moved on the server.
func TestTrace(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		clustertest.Exec(t, primary, "postgres", "CREATE TABLE orders (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE orders",
			"SELECT pg_create_logical_replication_slot('mine', 'pgoutput')", "SELECT pg_create_physical_replication_slot('ph', true)")
		slots := func() string {
			return clustertest.Value[string](t, primary, "postgres",
				"SELECT string_agg(slot_name || restart_lsn || coalesce(confirmed_flush_lsn::text, ''), ',' ORDER BY slot_name) FROM pg_replication_slots")
		}
		before := slots()
		from := clustertest.Value[string](t, primary, "postgres", "SELECT pg_current_wal_lsn()::text")
		clustertest.Exec(t, primary, "postgres", "INSERT INTO orders SELECT generate_series(1, 10)", "SELECT pg_log_standby_snapshot()")
		to := clustertest.Value[string](t, primary, "postgres", "SELECT pg_current_wal_flush_lsn()::text")
		server := conninfoOf(t, primary.Addr())
		trace := func(want []string, args ...string) {
			t.Helper()
			o := execute(t, nil, "", append([]string{"debug", "trace"}, args...)...)
			if o.status != 0 {
				t.Fatalf("trace %q: exit status %d: %s", args, o.status, o.stderr)
			}
			for _, w := range want {
				if !strings.Contains(o.stdout, w) {
					t.Errorf("trace %q lacks %q:\n%.3000s", args, w, o.stdout)
				}
			}
		}
		options := []string{"--option", "proto_version=1", "--option", "publication_names=p"}
		trace([]string{"IDENTIFY_SYSTEM", "kind=INSERT", "kind=COMMIT", "CopyDone"}, "--startpos", from, "--endpos", to, server)
		trace([]string{"slot=ph", "kind=INSERT"}, "--slot", "ph", "--startpos", from, "--endpos", to, server)
		trace([]string{"pgoutput=Insert relation=public.orders new={id=10}"},
			append(append([]string{"--logical", "--slot", "mine", "--endpos", to}, options...), server)...)
		trace([]string{`"message":"CopyDone"`}, "--json", "--temporary-slot", "--endpos", from, server)
		if after := slots(); after != before {
			t.Errorf("slots are %s, were %s", after, before)
		}

		addr := freeAddr(t)
		relay := start(t, nil, "relay", "--listen", addr, "--upstream", primary.Conninfo("postgres"))
		relay.document(t, "the relay to be ready", func(d *statusdoc.Document) bool { return d.Ready })
		trace([]string{"slot_name=mine", "stream=slot_state"}, "--slot-state", "--endpos", "0/1", conninfoOf(t, addr))
		if o := execute(t, nil, "", "debug", "trace", "--slot-state", server); o.status != 1 || !strings.Contains(o.stderr, "no slotferry relay") {
			t.Errorf("--slot-state on a server: exit status %d: %s", o.status, o.stderr)
		}
		if o := execute(t, nil, "", "debug", "trace", conninfoOf(t, freeAddr(t))); o.status != 2 {
			t.Errorf("nobody listens: exit status %d, want 2: %s", o.status, o.stderr)
		}
	})
}

func TestTraceUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--logical", "host=x"}, {"--slot", "a", "--temporary-slot", "host=x"}, {"--slot-state", "--logical", "host=x"},
		{"--option", "nonsense", "host=x"}, {"--endpos", "zz", "host=x"}, {"host='x"}} {
		if o := execute(t, nil, "", append([]string{"debug", "trace"}, args...)...); o.status != 3 {
			t.Errorf("trace %q: exit status %d, want 3: %s", args, o.status, o.stderr)
		}
	}
}
