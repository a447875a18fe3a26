package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

func TestClientPrograms(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		s := clustertest.Primary(t, major, cluster.Config{})
		conninfo := s.Conninfo("postgres")
		clustertest.Run(t, s, "pgbench", "--initialize", "--quiet", conninfo)
		got := clustertest.Run(t, s, "psql", "-XAtc", "SELECT count(*) FROM pgbench_accounts", conninfo)
		if strings.TrimSpace(got) != "100000" {
			t.Errorf("psql says %q, want 100000", got)
		}

		clustertest.Run(t, s, "pg_recvlogical", "--dbname", conninfo, "--slot", "l", "--create-slot",
			"--plugin", "test_decoding")
		clustertest.Exec(t, s, "postgres", "CREATE TABLE t AS SELECT 42 AS answer")
		end := clustertest.Value[string](t, s, "postgres", "SELECT pg_current_wal_lsn()::text")
		out := clustertest.Run(t, s, "pg_recvlogical", "--dbname", conninfo, "--slot", "l", "--start",
			"--endpos", end, "--file", "-")
		if !strings.Contains(out, "answer[integer]:42") {
			t.Errorf("pg_recvlogical says %q", out)
		}

		backup := filepath.Join(t.TempDir(), "backup")
		clustertest.Run(t, s, "pg_basebackup", "--dbname", conninfo, "--pgdata", backup, "--checkpoint", "fast")
		if _, err := os.Stat(filepath.Join(backup, "backup_label")); err != nil {
			t.Error(err)
		}

		// pg_receivewal begins at the segment that is written now, and ends once it
		// gets more than it was asked for.
		clustertest.Exec(t, s, "postgres", "INSERT INTO t VALUES (43)")
		end = clustertest.Value[string](t, s, "postgres", "SELECT pg_current_wal_lsn()::text")
		clustertest.Exec(t, s, "postgres", "INSERT INTO t VALUES (44)")
		received := t.TempDir()
		clustertest.Run(t, s, "pg_receivewal", "--dbname", conninfo, "--directory", received, "--no-loop",
			"--endpos", end)
		files, err := os.ReadDir(received)
		if err != nil || len(files) == 0 {
			t.Errorf("pg_receivewal left %d files, %v", len(files), err)
		}
	})
}
