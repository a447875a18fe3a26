package rig

import (
	"context"
	"fmt"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// A physical slot and a logical one that are not the helper's survive on the
// standby: restarts of the helper, upstream slots that come and go, and a role
// change (I-9).
func TestForeignSlotsOnTheStandbySurvive(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.waitAnchor(p.B)
		clustertest.Exec(t, p.B.Server, "postgres", "SELECT pg_create_physical_replication_slot('next', true)",
			"SELECT pg_copy_logical_replication_slot(slot_name, 'theirs', false, 'test_decoding') FROM pg_replication_slots WHERE temporary")
		foreign := func() string {
			t.Helper()
			names, err := cluster.QueryColumn[string](t.Context(), p.B.Server, "postgres", `SELECT slot_name || ' ' || restart_lsn
				FROM pg_replication_slots WHERE slot_name IN ('next', 'theirs') ORDER BY 1`)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(names)
		}
		want := foreign()
		for round := range 2 {
			p.createSlot(p.A, "churn")
			p.waitReady(p.B, "churn")
			clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_drop_replication_slot('churn')")
			p.until("the slot to go", func(context.Context) (bool, string) { return !exists(t, p.B, "churn"), "there" })
			end := p.B.Helper.Stop
			if round == 1 {
				end = p.B.Helper.Kill9
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if err := p.B.Helper.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.waitAnchor(p.B)
		}
		p.createSlot(p.A, "kept")
		p.waitReady(p.B, "kept")
		if err := p.A.Server.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(p.B)
		if got := foreign(); got != want {
			t.Errorf("slots are %s, were %s", got, want)
		}
		if !exists(t, p.B, "kept") {
			t.Error("the ready slot is gone")
		}
	})
}
