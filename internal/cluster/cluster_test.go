package cluster_test

import (
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

func pair(t *testing.T, major int) (primary, standby *cluster.Server) {
	primary = clustertest.Primary(t, major, cluster.Config{})
	standby = clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby"})
	return primary, standby
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// insert writes n into table t of the primary and waits until the standby shows it.
func insert(t *testing.T, primary, standby *cluster.Server, n int) {
	t.Helper()
	clustertest.Exec(t, primary, "postgres", "CREATE TABLE IF NOT EXISTS t (n int)")
	clustertest.Value[int](t, primary, "postgres", "INSERT INTO t VALUES ($1) RETURNING n", n)
	must(t, primary.WaitForStandby(t.Context(), standby))
	if !clustertest.Value[bool](t, standby, "postgres", "SELECT EXISTS (SELECT FROM t WHERE n = $1)", n) {
		t.Fatalf("row %d is not on the standby", n)
	}
}

func TestPairReplicates(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary, standby := pair(t, major)
		if got := clustertest.Value[int](t, primary, "postgres",
			"SELECT current_setting('server_version_num')::int / 10000"); got != major {
			t.Errorf("server_version_num says %d, want %d", got, major)
		}
		insert(t, primary, standby, 1)
		must(t, primary.WaitForStreaming(t.Context(), "standby"))
		if !clustertest.Value[bool](t, primary, "postgres",
			"SELECT active FROM pg_replication_slots WHERE slot_name = 'standby'") {
			t.Error("the physical slot is not active")
		}
	})
}

func TestServersDifferInSystemIdentifier(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		const sql = "SELECT system_identifier FROM pg_control_system()"
		a := clustertest.Primary(t, major, cluster.Config{Name: "a"})
		b := clustertest.Primary(t, major, cluster.Config{Name: "b"})
		standby := clustertest.Standby(t, a, cluster.StandbyConfig{})
		idA, idB := clustertest.Value[int64](t, a, "postgres", sql), clustertest.Value[int64](t, b, "postgres", sql)
		if idA == idB {
			t.Errorf("two primaries have system identifier %d", idA)
		}
		if got := clustertest.Value[int64](t, standby, "postgres", sql); got != idA {
			t.Errorf("standby has system identifier %d, want %d", got, idA)
		}
	})
}

func TestKill9AndRestart(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary, standby := pair(t, major)
		insert(t, primary, standby, 1)
		for _, s := range []*cluster.Server{primary, standby} {
			must(t, s.Kill9())
			if s.Running() {
				t.Fatalf("%s runs after Kill9", s.Name())
			}
		}
		must(t, primary.Start(t.Context()))
		must(t, standby.Start(t.Context()))
		must(t, primary.WaitLogContains(t.Context(), "automatic recovery in progress"))
		insert(t, primary, standby, 2)
	})
}

func TestCascade(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary, standby := pair(t, major)
		cascaded := clustertest.Standby(t, standby, cluster.StandbyConfig{Name: "cascaded", SlotName: "cascaded"})
		insert(t, primary, cascaded, 1)
	})
}

// A clean switchover there and back: no data directory is made anew.
func TestSwitchover(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		a, b := pair(t, major)
		insert(t, a, b, 1)
		for n := 2; n <= 3; n++ {
			must(t, a.WaitForStreaming(ctx, b.Name()))
			must(t, a.Stop(ctx, cluster.Fast))
			must(t, b.Promote(ctx))
			if b.IsStandby() {
				t.Fatalf("%s is a standby after its promotion", b.Name())
			}
			must(t, b.CreatePhysicalSlot(ctx, "back"))
			must(t, a.SetStandby(b.ReplicationConninfo(a.Name()), "back"))
			must(t, a.Start(ctx))
			insert(t, b, a, n)
			a, b = b, a
		}
	})
}
