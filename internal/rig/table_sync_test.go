package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// Slots that come and go, of a subscription's initial copy of 20 tables and 50
// temporary ones, leave nothing behind on the standby, and one that stays is
// ready.
func TestSlotsOfTheInitialCopyLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.waitAnchor(p.B)
		var tables []string
		for i := range 20 {
			tables = append(tables, fmt.Sprintf("CREATE TABLE c%d (n int PRIMARY KEY)", i))
		}
		clustertest.Exec(t, p.A.Server, "postgres", tables...)
		for i := range 20 {
			clustertest.Exec(t, p.A.Server, "postgres", fmt.Sprintf("INSERT INTO c%d SELECT generate_series(1, 1000)", i))
		}
		subscriber := clustertest.Primary(t, major, cluster.Config{Name: "subscriber"})
		clustertest.Exec(t, subscriber, "postgres", append(tables, "CREATE TABLE t (i bigint PRIMARY KEY, v text)",
			fmt.Sprintf("CREATE SUBSCRIPTION sub CONNECTION '%s' PUBLICATION p", p.A.Server.Conninfo("postgres")))...)
		var cycles strings.Builder
		for i := range 50 {
			fmt.Fprintf(&cycles, "SELECT pg_create_logical_replication_slot('temp%d', 'pgoutput', true);"+
				"SELECT pg_drop_replication_slot('temp%d');", i, i)
		}
		conn, err := p.A.Server.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		for sql := range strings.SplitSeq(strings.TrimSuffix(cycles.String(), ";"), ";") {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		p.until("all tables to be copied", func(context.Context) (bool, string) {
			n := clustertest.Value[int64](t, subscriber, "postgres", "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'")
			return n >= 20, fmt.Sprint(n)
		})
		p.waitReady(p.B, "sub")
		p.until("nothing else to be on the standby", func(context.Context) (bool, string) {
			names, err := cluster.QueryColumn[string](t.Context(), p.B.Server, "postgres",
				"SELECT slot_name FROM pg_replication_slots WHERE NOT temporary")
			return err == nil && len(names) == 1 && names[0] == "sub", fmt.Sprint(names, err)
		})
		for _, word := range []string{"temp1", "_sync_"} {
			if strings.Contains(p.B.Helper.Log(), `"slot_name":"`+word) {
				t.Errorf("the helper has dealt with a slot named %s...", word)
			}
		}
	})
}
