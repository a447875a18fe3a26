package relay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/relay"
)

// passwordServer returns a server that asks for the password "secret".
func passwordServer(t *testing.T, major int) *cluster.Server {
	t.Helper()
	server := clustertest.Primary(t, major, cluster.Config{HBA: []string{
		"host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"}})
	clustertest.Exec(t, server, "postgres", "ALTER ROLE postgres PASSWORD 'secret'")
	return server
}

// command prepares a client program that fits the server and knows its password.
func command(t *testing.T, s *cluster.Server, name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	out := new(bytes.Buffer)
	cmd := clustertest.Command(t.Context(), t, s, name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(cmd.Env, "PGPASSWORD=secret")
	return cmd, out
}

// runCommand runs a client program to its end.
func runCommand(t *testing.T, s *cluster.Server, name string, args ...string) string {
	t.Helper()
	cmd, out := command(t, s, name, args...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v, %s", name, strings.Join(args, " "), err, out)
	}
	return out.String()
}

// throughTwoHops returns a splicing relay in front of a server, busy with slot messages,
// and a stripping one behind it.
func throughTwoHops(t *testing.T, server *cluster.Server) (splice, strip *runningRelay, found *sink) {
	t.Helper()
	source := startSource(t, server, relay.SlotSourceConfig{Conninfo: server.Conninfo("postgres") + " password=secret",
		PollInterval: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond})
	splice = startRelay(t, relay.Config{Upstream: server.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
	found = new(sink)
	strip = startRelay(t, relay.Config{Upstream: via(splice, ""), Mode: relay.ModeStrip, Sink: found})
	return splice, strip, found
}

// psql, and Ctrl-C in it.
func TestPsql(t *testing.T) { clustertest.EachMajor(t, testPsql) }

func testPsql(t *testing.T, major int) {
	server := passwordServer(t, major)
	source := startSource(t, server, relay.SlotSourceConfig{Conninfo: server.Conninfo("postgres") + " password=secret"})
	r := startRelay(t, relay.Config{Upstream: server.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
	for _, encryption := range []string{"sslmode=prefer", "sslmode=disable max_protocol_version=latest"} {
		if major < 18 {
			encryption = strings.TrimSuffix(encryption, " max_protocol_version=latest")
		}
		conninfo := strings.Replace(via(r, ""), "sslmode=disable", encryption, 1)
		cmd, out := command(t, server, "psql", "-XAtd", conninfo, "-c", "SELECT count(*) FROM generate_series(1, 200000)")
		if err := cmd.Run(); err != nil || strings.TrimSpace(out.String()) != "200000" {
			t.Fatalf("psql: %v, %s", err, out)
		}
		cmd, out = command(t, server, "psql", "-Xd", conninfo, "-c", "SELECT pg_sleep(60)")
		must(t, cmd.Start())
		require(t, "pg_sleep", func(ctx context.Context) (bool, string) {
			n, err := cluster.QueryValue[int](ctx, server, "postgres",
				"SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
			return n == 1, fmt.Sprint(n, err)
		})
		must(t, cmd.Process.Signal(syscall.SIGINT))
		began := time.Now()
		if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "canceling statement due to user request") {
			t.Errorf("psql: %v, %s", err, out)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the cancel took %s", d)
		}
	}
}

// pg_receivewal through relay and
// helper writes the same bytes as direct (I-13).
func TestClientPrograms(t *testing.T) { clustertest.EachMajor(t, testClientPrograms) }

func testClientPrograms(t *testing.T, major int) {
	server := passwordServer(t, major)
	splice, strip, found := throughTwoHops(t, server)

	clustertest.Exec(t, server, "postgres", "SELECT pg_switch_wal()")
	dirs := map[string]string{"direct": server.Conninfo("postgres"), "relay": via(splice, ""), "both": via(strip, "")}
	wait := map[string]func(){}
	out := map[string]string{}
	from := clustertest.Value[string](t, server, "postgres", "SELECT pg_current_wal_lsn()::text")
	for name, conninfo := range dirs {
		out[name] = t.TempDir()
		clustertest.Exec(t, server, "postgres", "SELECT pg_create_physical_replication_slot('"+name+"', true)")
		cmd, log := command(t, server, "pg_receivewal", "-D", out[name], "-d", conninfo, "-S", name, "--no-loop", "-s", "1")
		must(t, cmd.Start())
		wait[name] = func() {
			_ = cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				t.Errorf("pg_receivewal %s: %v, %s", name, err, log)
			}
		}
	}
	traffic(t, server, 60)
	clustertest.Exec(t, server, "postgres", "SELECT pg_switch_wal()")
	traffic(t, server, 20)
	to := clustertest.Value[string](t, server, "postgres", "SELECT pg_switch_wal()::text")
	for name := range dirs {
		require(t, name+" to have all WAL", func(ctx context.Context) (bool, string) {
			ok, err := cluster.QueryValue[bool](ctx, server, "postgres",
				"SELECT coalesce(flush_lsn >= $1::pg_lsn, false) FROM pg_stat_replication WHERE pid = "+
					"(SELECT active_pid FROM pg_replication_slots WHERE slot_name = $2)", to, name)
			return ok, fmt.Sprint(err)
		})
		wait[name]()
	}
	want := segments(t, out["direct"])
	if len(want) < 2 {
		t.Fatalf("%d segments since %s", len(want), from)
	}
	for _, name := range []string{"relay", "both"} {
		if got := segments(t, out[name]); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v\nwant %v", name, got, want)
		}
	}
	if _, n := found.newest(); n == 0 {
		t.Error("no slot message was stripped")
	}
}

// segments returns the SHA-256 of every whole segment of a directory of WAL.
func segments(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "0*"))
	must(t, err)
	sums := map[string]string{}
	for _, path := range list {
		if strings.HasSuffix(path, ".partial") {
			continue
		}
		b, err := os.ReadFile(path)
		must(t, err)
		sums[filepath.Base(path)] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return sums
}
