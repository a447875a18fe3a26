package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// addTable makes a table on the primary, with rows from 1 to n, and has the standby
// catch up with it. The subscriber has it empty.
func (p *holdBackPair) addTable(name string, n int) {
	p.t.Helper()
	clustertest.Exec(p.t, p.A.Server, "postgres", fmt.Sprintf("CREATE TABLE %s (i bigint PRIMARY KEY, v text)", name))
	p.fill(p.A, name, 1, n)
	clustertest.Exec(p.t, p.subscriber, "postgres", fmt.Sprintf("CREATE TABLE %s (i bigint PRIMARY KEY, v text)", name))
	if err := p.A.Server.WaitForStandby(p.t.Context(), p.B.Server); err != nil {
		p.t.Fatal(err)
	}
}

func (p *holdBackPair) fill(n *Node, table string, from, to int) {
	p.t.Helper()
	clustertest.Exec(p.t, n.Server, "postgres", fmt.Sprintf("INSERT INTO %s SELECT g, 'row' FROM generate_series(%d, %d) g", table, from, to))
}

// addToSubscription has the subscriber begin with the tables that it does not have yet.
func (p *holdBackPair) addToSubscription() {
	p.t.Helper()
	clustertest.Exec(p.t, p.subscriber, "postgres", "ALTER SUBSCRIPTION sub REFRESH PUBLICATION")
}

// waitCreationHeld waits until the creation of a slot for a table's initial copy has
// been held for so long, and returns how.
func (p *holdBackPair) waitCreationHeld(n *Node, long time.Duration) (found relay.SessionStatus) {
	p.t.Helper()
	p.until("the creation of a slot to be held", func(ctx context.Context) (bool, string) {
		st, err := relayStatus(ctx, n.Relay)
		if err != nil {
			return false, err.Error()
		}
		var all []string
		for _, s := range st.Sessions {
			h := s.HoldBack
			if h == nil {
				continue
			}
			all = append(all, fmt.Sprintf("%+v", *h))
			if h.Creates && h.Reason == relay.HoldBehind && strings.Contains(h.Slot, "_sync_") && time.Since(*h.Since) >= long {
				found = s
				return true, ""
			}
		}
		return false, strings.Join(all, "\n")
	})
	return found
}

func count(t *testing.T, s *cluster.Server, table string) int {
	t.Helper()
	return clustertest.Value[int](t, s, "postgres", "SELECT count(*)::int FROM "+table)
}

// The initial copy of a table reads the primary with the snapshot of a slot that it
// makes. Behind a standby that stands still it waits before it reads anything, for
// longer than wal_sender_timeout and wal_receiver_timeout; it goes on when the standby
// does. When the primary dies in that state the subscriber copies from the new one,
// and has no row that this one has not.
func TestStalledStandbyHoldsTheInitialCopy(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newHoldBackPair(t, major, "--hold-back", "b")
		p.set(p.subscriber, "wal_receiver_timeout", "3s")
		stalledCopy := func(table string) (limit protocol.LSN, session uint64) {
			t.Helper()
			p.addTable(table, 100)
			p.network.Stall(faultproxy.Down)
			limit = flushed(t, p.A, "b")
			// An apply worker that has the first change of a transaction starts no copy before
			// it has the last: so the rows begin behind what the standby has.
			clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_logical_emit_message(true, 'nobody', 'asks for this')")
			p.fill(p.A, table, 101, 200)
			p.addToSubscription()
			s := p.waitCreationHeld(p.A, 0)
			if s.HoldBack.WaitsFor <= limit || strings.Join(s.HoldBack.By, " ") != "b" {
				t.Errorf("session %+v %+v, and the standby has flushed %v", s, s.HoldBack, limit)
			}
			return limit, s.ID
		}

		_, session := stalledCopy("c")
		if s := p.waitCreationHeld(p.A, 4*time.Second); s.ID != session {
			t.Errorf("session %d holds a creation, it was %d: the first has not lived through the timeouts", s.ID, session)
		}
		if n := count(t, p.subscriber, "c"); n != 0 {
			t.Errorf("the subscriber has %d rows", n)
		}
		p.network.Resume(faultproxy.Down)
		p.until("the copy to be whole", func(context.Context) (bool, string) {
			n := count(t, p.subscriber, "c")
			return n == 200, fmt.Sprint(n)
		})

		stalledCopy("d")
		p.failover()
		p.fill(p.B, "d", 301, 400)
		p.insert(p.B, 1, 1)
		p.until("the last rows on the subscriber", func(context.Context) (bool, string) {
			n := clustertest.Value[int](t, p.subscriber, "postgres", "SELECT (SELECT count(*) FROM d WHERE i = 400)::int + (SELECT count(*) FROM t)::int")
			return n == 2, fmt.Sprint(n)
		})
		for _, table := range []string{"c", "d", "t"} {
			if lost, extra := p.compareTable(p.B, table); len(lost)+len(extra) > 0 {
				t.Errorf("table %s: lost %v, extra %v", table, lost, extra)
			}
		}
		if n := count(t, p.B.Server, "d"); n != 200 {
			t.Errorf("the new primary has %d rows: what was to be lost is not", n)
		}
	})
}
