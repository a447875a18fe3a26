package cluster_test

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

func TestConninfo(t *testing.T) {
	s := clustertest.Primary(t, 17, cluster.Config{})
	const dbname = `it's a "name"`
	clustertest.Exec(t, s, "postgres", `CREATE DATABASE "it's a ""name"""`)
	for _, conninfo := range []string{s.Conninfo(dbname), s.ConninfoURI(dbname)} {
		conn, err := pgx.Connect(t.Context(), conninfo)
		if err != nil {
			t.Errorf("connect with %s: %v", conninfo, err)
			continue
		}
		var got string
		must(t, conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&got))
		if got != dbname {
			t.Errorf("%s leads to %q", conninfo, got)
		}
		must(t, conn.Close(t.Context()))
	}
	for _, dbname := range []string{"", "postgres"} {
		conn, err := s.ConnectReplication(t.Context(), dbname)
		must(t, err)
		if _, err := conn.Exec(t.Context(), "IDENTIFY_SYSTEM").ReadAll(); err != nil {
			t.Error(err)
		}
		must(t, conn.Close(t.Context()))
	}
}

func TestSetConf(t *testing.T) {
	s := clustertest.Primary(t, 18, cluster.Config{Settings: map[string]string{"work_mem": "5MB"}})
	show := func(name string) string {
		return clustertest.Value[string](t, s, "postgres", "SELECT current_setting($1)", name)
	}
	if got := show("work_mem"); got != "5MB" {
		t.Errorf("work_mem is %s at start, want 5MB", got)
	}
	must(t, s.SetConf(t.Context(), "work_mem", "7MB"))
	if got := show("work_mem"); got != "7MB" {
		t.Errorf("work_mem is %s, want 7MB", got)
	}
	must(t, s.SetConf(t.Context(), "cluster_name", `it's \ me`))
	must(t, s.Restart(t.Context(), cluster.Fast))
	if got := show("cluster_name"); got != `it's \ me` {
		t.Errorf("cluster_name is %s after the restart", got)
	}
	if err := s.SetConf(t.Context(), "work_mem", "much"); err == nil || !strings.Contains(err.Error(), "work_mem") {
		t.Errorf("setting work_mem to nonsense: %v", err)
	}
}

func TestHBA(t *testing.T) {
	s := clustertest.Primary(t, 16, cluster.Config{HBA: []string{"host all all 127.0.0.1/32 reject"}})
	if conn, err := pgx.Connect(t.Context(), s.Conninfo("postgres")); err == nil {
		conn.Close(t.Context())
		t.Error("a rejected connection was made")
	}
	clustertest.Exec(t, s, "postgres", "SELECT 1")
	must(t, s.SetHBA(t.Context()))
	conn, err := pgx.Connect(t.Context(), s.Conninfo("postgres"))
	must(t, err)
	must(t, conn.Close(t.Context()))
}

func TestFailedStartShowsLog(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Config{
		Bin:      clustertest.Bin(t, 17),
		Settings: map[string]string{"wal_level": "nonsense"},
	})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "wal_level"`) {
		t.Errorf("start with a bad setting: %v, want what the log says", err)
	}
}

// A stream through an address where nobody listens yet: the standby comes up all
// the same, as it must for a relay that is started after it.
func TestStandbyBeforeItsRelay(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		addr := l.Addr().String()
		must(t, l.Close())
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "s", Via: addr})
		if !clustertest.Value[bool](t, standby, "postgres", "SELECT pg_is_in_recovery()") {
			t.Error("the standby is not in recovery")
		}
	})
}

func TestCloseRemovesDirectory(t *testing.T) {
	s := clustertest.Primary(t, 16, cluster.Config{})
	must(t, s.Close())
	if _, err := os.Stat(s.DataDir()); !os.IsNotExist(err) {
		t.Errorf("data directory after Close: %v", err)
	}
	must(t, s.Close())
}

func TestFreePortsDiffer(t *testing.T) {
	const n = 50
	var mu sync.Mutex
	seen := map[int]bool{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			port, release, err := cluster.FreePort()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(release)
			mu.Lock()
			defer mu.Unlock()
			if seen[port] {
				t.Errorf("port %d twice", port)
			}
			seen[port] = true
		})
	}
	wg.Wait()
}
