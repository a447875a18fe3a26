package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/procstat"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// A receiver that is stopped while WAL is written stops its own walsender and
// nothing else: the one beside it has all, the relay's memory stays what it was, and
// when the receiver goes on it gets the rest on the same connection.
func TestStalledStandbyCostsNoMemory(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{Settings: map[string]string{
			"wal_sender_timeout": "0", "max_wal_size": "4GB", "wal_keep_size": "1GB"}})
		addr := freeAddr(t)
		relay := start(t, nil, "relay", "--listen", addr, "--upstream", primary.Conninfo("postgres"))
		relay.document(t, "the relay to be ready", func(d *statusdoc.Document) bool { return d.Ready })
		receive := func(name string) *exec.Cmd {
			clustertest.Exec(t, primary, "postgres", "SELECT pg_create_physical_replication_slot('"+name+"', true)")
			cmd := clustertest.Command(t.Context(), t, primary, "pg_receivewal", "-D", t.TempDir(), "-S", name, "--no-loop", "-s", "1",
				"-d", conninfoOf(t, addr)+" application_name="+name)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // it was killed
			})
			return cmd
		}
		stalled := receive("stalled")
		receive("healthy")
		for _, name := range []string{"stalled", "healthy"} {
			if err := primary.WaitForStreaming(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		walsender := func() int {
			return clustertest.Value[int](t, primary, "postgres", "SELECT coalesce(max(pid), 0) FROM pg_stat_replication WHERE application_name = 'stalled'")
		}
		has := func(name, lsn string) {
			t.Helper()
			poll.Require(t, waitLong, name+" to have all WAL", func(ctx context.Context) (bool, string) {
				ok, err := cluster.QueryValue[bool](ctx, primary, "postgres",
					"SELECT coalesce(bool_or(write_lsn >= $1::pg_lsn), false) FROM pg_stat_replication WHERE application_name = $2", lsn, name)
				return ok, fmt.Sprint(err)
			})
		}
		const megabytes = 192
		write := func(n int) string {
			t.Helper()
			clustertest.Exec(t, primary, "postgres", fmt.Sprintf(
				"SELECT pg_logical_emit_message(false, 'x', repeat('x', 1 << 20)) FROM generate_series(1, %d)", n))
			return clustertest.Value[string](t, primary, "postgres", "SELECT pg_current_wal_flush_lsn()::text")
		}
		has("stalled", write(8)) // buffers have their size now
		pid, before := walsender(), residentKiB(t, relay.cmd.Process.Pid)
		if err := stalled.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		end := write(megabytes)
		has("healthy", end)
		if after := residentKiB(t, relay.cmd.Process.Pid); after > before+16<<10 {
			t.Errorf("the relay takes %d KiB, took %d", after, before)
		}
		behind := clustertest.Value[int64](t, primary, "postgres",
			"SELECT ($1::pg_lsn - sent_lsn)::bigint FROM pg_stat_replication WHERE application_name = 'stalled'", end)
		if behind < megabytes<<20/2 {
			t.Errorf("the walsender of the stalled receiver is only %d bytes behind", behind)
		}
		if err := stalled.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		has("stalled", end)
		if now := walsender(); now != pid {
			t.Errorf("walsender is %d, was %d", now, pid)
		}
		stopsCleanly(t, relay)
	})
}

// residentKiB is how much memory a process has.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	n := procstat.RSS(pid)
	if n == 0 {
		t.Skip("no /proc here")
	}
	return int(n >> 10)
}
