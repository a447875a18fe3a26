package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// A slot that has 300 MiB to advance on a server whose statement_timeout is 200 ms
// arrives, over a restart of the helper; and SIGTERM in the middle of such work
// ends the helper within 2 s, with no session left on the standby.
func TestLongAdvanceUnderStatementTimeout(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPairOf(t, major, Config{Mode: Inline, Flags: []string{"--advance-interval", "200ms"}, Settings: map[string]string{
			"max_wal_size": "2GB", "checkpoint_timeout": "1h", "autovacuum": "off",
		}})
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		memory := rss(t, p.B.Helper) + rss(t, p.A.Relay)
		if err := p.B.Helper.Stop(); err != nil {
			t.Fatal(err)
		}
		p.set(p.B.Server, "statement_timeout", "200ms")
		if err := p.B.Helper.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		clustertest.Exec(t, p.A.Server, "postgres", "CREATE TABLE big (n int, pad text); ALTER TABLE big ALTER pad SET STORAGE plain")
		for range 3 {
			clustertest.Exec(t, p.A.Server, "postgres", "INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, 90000) g")
		}
		clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_log_standby_snapshot()",
			"SELECT pg_replication_slot_advance('s', pg_current_wal_flush_lsn())")
		want := confirmed(t, p.A, "s")
		if err := p.A.Server.WaitForStandby(t.Context(), p.B.Server); err != nil {
			t.Fatal(err)
		}

		began := time.Now()
		if err := p.B.Helper.Stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the helper took %s to end", took)
		}
		p.untilWithin(2*time.Second, "its sessions to be gone", func(context.Context) (bool, string) {
			left, err := cluster.QueryColumn[string](t.Context(), p.B.Server, "postgres",
				"SELECT coalesce(query, '') FROM pg_stat_activity WHERE application_name = 'slotferry helper'")
			return err == nil && len(left) == 0, fmt.Sprint(left, err)
		})
		if err := p.B.Helper.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		p.until("the slot to arrive", func(context.Context) (bool, string) {
			l := confirmed(t, p.B, "s")
			return l >= want, fmt.Sprintf("%v, want %v", l, want)
		})
		if strings.Contains(p.B.Server.Log(), "canceling statement due to statement timeout") {
			t.Error("statements of the helper were canceled")
		}
		if grown := rss(t, p.B.Helper) + rss(t, p.A.Relay) - memory; grown > 64<<20 {
			t.Errorf("relay and helper take %d MiB more than before", grown>>20)
		}
		t.Logf("arrived %s after the helper's start", time.Since(began).Round(time.Millisecond))
	})
}
