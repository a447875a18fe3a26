package rig

import (
	"context"
	"fmt"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// What happens to slots and replay while the pair lives, through the whole chain
// of relay and helper, and a failover at its end.
func TestSlotsComeAndGo(t *testing.T) {
	each(t, func(t *testing.T, p *testPair) {
		p.waitAnchor(p.B)
		p.createSlot(p.A, "steady")
		p.waitReady(p.B, "steady")

		t.Run("an upstream slot is dropped and made again", func(t *testing.T) {
			p.createSlot(p.A, "again")
			p.waitReady(p.B, "again")
			clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_drop_replication_slot('again')")
			poll.Require(t, waitTime, "the slot to go", func(context.Context) (bool, string) { return !exists(t, p.B, "again"), "" })
			p.insert(p.A, 1, 10)
			p.createSlot(p.A, "again")
			p.waitReady(p.B, "again")
			if l, u := confirmed(t, p.B, "again"), confirmed(t, p.A, "again"); l > u {
				t.Errorf("made again at %v, its subscriber is at %v", l, u)
			}
		})
		t.Run("replay is paused", func(t *testing.T) {
			clustertest.Exec(t, p.B.Server, "postgres", "SELECT pg_wal_replay_pause()")
			poll.Require(t, waitTime, "replay to pause", func(context.Context) (bool, string) {
				return clustertest.Value[string](t, p.B.Server, "postgres", "SELECT pg_get_wal_replay_pause_state()") == "paused", ""
			})
			p.insert(p.A, 11, 20)
			p.rows(p.A, "steady")
			want := confirmed(t, p.A, "steady")
			poll.Require(t, waitTime, "the slot to lag and be ready", func(ctx context.Context) (bool, string) {
				st, err := p.B.Status(ctx)
				if err != nil {
					return false, err.Error()
				}
				for _, s := range st.Slots {
					if s.Name == "steady" {
						return s.State == decoder.StateReady && s.Upstream >= want && s.Local <= st.Standby.ReplayLSN && s.Lag > 0,
							fmt.Sprintf("%+v", s)
					}
				}
				return false, "not there"
			})
			clustertest.Exec(t, p.B.Server, "postgres", "SELECT pg_wal_replay_resume()")
			poll.Require(t, waitTime, "the slot to catch up", func(context.Context) (bool, string) {
				l := confirmed(t, p.B, "steady")
				return l >= want, fmt.Sprintf("%v, want %v", l, want)
			})
		})
		t.Run("a slot is born while a transaction is open", func(t *testing.T) {
			conn, err := p.A.Server.Connect(t.Context(), "postgres")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			for _, s := range []string{"BEGIN", "INSERT INTO t VALUES (1001, 'long')"} {
				if _, err := conn.Exec(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			born := make(chan error, 1)
			go func() {
				born <- p.A.Server.Exec(context.WithoutCancel(t.Context()), "postgres",
					"SELECT pg_create_logical_replication_slot('young', 'test_decoding')")
			}()
			p.waitSlot(p.B, "young", decoder.StatePending, decoder.ReasonBeingCreated)
			clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_log_standby_snapshot()", "CHECKPOINT", "SELECT pg_log_standby_snapshot()")
			p.insert(p.A, 21, 30)
			p.waitReady(p.B, "steady") // one slot's wait is its own (I-11)
			for _, s := range []string{"INSERT INTO t VALUES (1002, 'long')", "COMMIT"} {
				if _, err := conn.Exec(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-born; err != nil {
				t.Fatal(err)
			}
			p.waitReady(p.B, "young")
		})
		p.insert(p.A, 31, 40)
		p.catchUp(p.A, p.B, "steady", "again", "young")
		if err := p.A.Server.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(p.B)
		steady := p.rows(p.B, "steady")
		wantRows(t, steady, 21, 40)
		if steady[1001] != 1 || steady[1002] != 1 {
			t.Errorf("rows of the long transaction came %d and %d times", steady[1001], steady[1002])
		}
		wantRows(t, p.rows(p.B, "young"), 31, 40)
		wantRows(t, p.rows(p.B, "again"), 11, 40)
	})
}
