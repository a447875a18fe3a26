package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
)

// The helper's SQL hangs: the standby accepts its connections and never answers.
// WAL goes on through the same process as if nothing were, and slots are ready
// when the standby answers again (I-11).
func TestSlotWorkHangsAndWALGoesOn(t *testing.T) {
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPairOf(t, major, Config{Mode: Inline, Settings: map[string]string{
			"wal_sender_timeout": "2s", "wal_receiver_timeout": "2s",
		}})
		proxy, err := faultproxy.New(p.B.Server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		if err := p.B.Helper.Stop(); err != nil {
			t.Fatal(err)
		}
		reflag(p.B.Helper, "--standby", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres", proxy.Port()))
		if err := p.B.Helper.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		walreceiver := func() int32 {
			return clustertest.Value[int32](t, p.B.Server, "postgres", "SELECT pid FROM pg_stat_wal_receiver")
		}
		before, mark := walreceiver(), p.A.Server.LogSize()
		proxy.Stall(faultproxy.Down)
		proxy.Stall(faultproxy.Up)
		proxy.Blackhole(true)
		p.createSlot(p.A, "waits")
		clustertest.Run(t, p.A.Server, "pgbench", "--initialize", "--quiet", p.A.Server.Conninfo("postgres"))
		// Longer than both timeouts, twice.
		clustertest.Run(t, p.A.Server, "pgbench", "--no-vacuum", "--client", "2", "--time", "5", "--rate", "200", p.A.Server.Conninfo("postgres"))
		began := time.Now()
		p.flows()
		if lag := time.Since(began); lag > 5*time.Second {
			t.Errorf("WAL took %s to arrive", lag)
		}
		if now := walreceiver(); now != before {
			t.Errorf("walreceiver is %d, was %d", now, before)
		}
		if log := p.A.Server.LogSince(mark); strings.Contains(log, "replication timeout") {
			t.Errorf("log of the primary: %s", log)
		}
		proxy.Blackhole(false)
		proxy.Resume(faultproxy.Down)
		proxy.Resume(faultproxy.Up)
		proxy.Cut()
		p.recovers("waits")
		p.recovers("s")
	})
}

// A standby that applies WAL late on purpose, without timeouts on either side: the
// slot never passes what has been replayed, stays ready, and catches up when the
// delay ends.
func TestDelayedStandbyAndNoTimeouts(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPairOf(t, major, Config{Mode: Inline, Flags: []string{"--advance-interval", "200ms"}, Settings: map[string]string{
			"wal_sender_timeout": "0", "wal_receiver_timeout": "0",
		}})
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		p.set(p.B.Server, "recovery_min_apply_delay", "1h")
		for i := range 20 {
			p.insert(p.A, 10*i, 10*i+9)
			p.rows(p.A, "s")
		}
		want := confirmed(t, p.A, "s")
		p.until("the delay to show as lag of a ready slot", func(ctx context.Context) (bool, string) {
			st, err := p.B.Status(ctx)
			if err != nil || len(st.Slots) != 1 {
				return false, fmt.Sprint(err)
			}
			s := st.Slots[0]
			if s.Local > st.Standby.ReplayLSN {
				t.Errorf("the slot is at %v, replayed is %v", s.Local, st.Standby.ReplayLSN)
			}
			return s.State == "ready" && s.Upstream >= want && s.Lag > 0, fmt.Sprintf("%+v", s)
		})
		p.set(p.B.Server, "recovery_min_apply_delay", "0")
		p.until("the slot to catch up", func(context.Context) (bool, string) {
			l := confirmed(t, p.B, "s")
			return l >= want, fmt.Sprintf("%v, want %v", l, want)
		})
	})
}
