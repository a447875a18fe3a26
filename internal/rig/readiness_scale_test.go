//go:build scale

package rig

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

const readinessSlots = 50

// TestInstantReadiness measures how long after its birth a slot is ready on the
// standby: 50 slots born one after another under load, with slotferry, and on the
// same load with the slot sync worker of PostgreSQL 17 and newer.
func TestInstantReadiness(t *testing.T) {
	for _, major := range clustertest.Majors(t) {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			dir := t.TempDir()
			binary, err := Build(t.Context(), dir, false)
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPair(t.Context(), Config{
				Bin: clustertest.Bin(t, major), Binary: binary, Mode: Inline, Dir: dir,
				Settings: map[string]string{"max_replication_slots": "200"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}()
			tp := &testPair{Pair: p, t: t}
			clustertest.Exec(t, p.A.Server, "postgres", "CREATE TABLE t (i bigserial PRIMARY KEY, v text)")
			tp.waitAnchor(p.B)
			stop := writeLoad(t, p.A.Server)
			defer stop()

			report(t, "slotferry", bornOneByOne(t, p.A.Server, "ours", "", func(slot string) (bool, string) {
				st, err := p.B.Status(t.Context())
				if err != nil {
					return false, err.Error()
				}
				for _, s := range st.Slots {
					if s.Name == slot {
						return s.State == decoder.StateReady, fmt.Sprintf("%+v", s)
					}
				}
				return false, "not there"
			}))
			if major < 17 {
				return
			}
			peer := clustertest.Standby(t, p.A.Server, cluster.StandbyConfig{
				Name: "peer", SlotName: "peer", PrimaryConninfo: p.A.Server.ReplicationConninfo("peer") + " dbname=postgres",
				Settings: map[string]string{"sync_replication_slots": "on"},
			})
			report(t, "slot sync worker", bornOneByOne(t, p.A.Server, "theirs", " (FAILOVER true, SNAPSHOT 'nothing')", func(slot string) (bool, string) {
				n, err := cluster.QueryValue[int64](t.Context(), peer, "postgres",
					"SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND synced AND NOT temporary", slot)
				return n == 1, fmt.Sprint(n, err)
			}))
		})
	}
}

// writeLoad keeps four sessions writing until stop is called.
func writeLoad(t *testing.T, s *cluster.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 4 {
		conn, err := s.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer conn.Close(context.WithoutCancel(ctx))
			for ctx.Err() == nil {
				_, _ = conn.Exec(ctx, "INSERT INTO t (v) SELECT repeat('x', 100) FROM generate_series(1, 5)")
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// bornOneByOne creates slots, and measures from the end of each creation until it
// is ready. Their subscribers confirm as they would: at once.
func bornOneByOne(t *testing.T, primary *cluster.Server, prefix, options string, ready func(slot string) (bool, string)) []time.Duration {
	t.Helper()
	var took []time.Duration
	for i := range readinessSlots {
		slot := fmt.Sprintf("%s_%d", prefix, i)
		conn, err := primary.ConnectReplication(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		if options == "" {
			_, err = pglogrepl.CreateReplicationSlot(t.Context(), conn, slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{SnapshotAction: "NOEXPORT_SNAPSHOT"})
		} else {
			_, err = conn.Exec(t.Context(), fmt.Sprintf("CREATE_REPLICATION_SLOT %q LOGICAL pgoutput%s", slot, options)).ReadAll()
		}
		if err != nil {
			t.Fatal(err)
		}
		born := time.Now()
		confirmed := born
		poll.Require(t, time.Minute, slot+" to be ready", func(context.Context) (bool, string) {
			if time.Since(confirmed) > 100*time.Millisecond { // the slot sync worker waits for that, we do not
				confirmed = time.Now()
				clustertest.Exec(t, primary, "postgres", fmt.Sprintf("SELECT pg_replication_slot_advance('%s', pg_current_wal_lsn())", slot))
			}
			return ready(slot)
		})
		took = append(took, time.Since(born))
		_ = conn.Close(t.Context())
	}
	return took
}

func report(t *testing.T, name string, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Millisecond) }
	t.Logf("%s: ready after p50 %s, p90 %s, p99 %s, max %s", name, at(0.5), at(0.9), at(0.99), took[len(took)-1].Round(time.Millisecond))
}
