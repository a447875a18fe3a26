package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// A real subscription and a test_decoding consumer go on after the primary was
// killed in mid-traffic. Nothing that the new primary has is lost to them, and
// what they get twice is bounded by what the last slot message missed. A slot
// born a moment before the end is there. A slot that was still pending is not,
// and its subscriber is told so loudly (I-1).
func TestFailover(t *testing.T) {
	each(t, testFailover)
	t.Run("solo", func(t *testing.T) {
		clustertest.NewestMajor(t, func(t *testing.T, major int) { testFailover(t, newTestPair(t, major, Solo)) })
	})
}

func testFailover(t *testing.T, p *testPair) {
	// Behind: its subscriber has confirmed nothing since before the anchor was made.
	if err := p.B.Helper.Stop(); err != nil {
		t.Fatal(err)
	}
	p.createSlot(p.A, "behind")
	p.insert(p.A, 1, 100)
	if err := p.B.Helper.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.waitAnchor(p.B)
	behind := p.waitSlot(p.B, "behind", decoder.StatePending, decoder.ReasonSubscriberBehind)
	if behind.Missing == 0 {
		t.Error("it is not said how far behind it is")
	}

	subscriber := clustertest.Primary(t, p.A.Server.Major(), cluster.Config{Name: "subscriber"})
	clustertest.Exec(t, subscriber, "postgres", "CREATE TABLE t (i bigint PRIMARY KEY, v text)",
		fmt.Sprintf("CREATE SUBSCRIPTION sub CONNECTION '%s' PUBLICATION p", p.A.Server.Conninfo("postgres")))
	p.createSlot(p.A, "td")
	p.waitReady(p.B, "sub")
	p.waitReady(p.B, "td")

	p.insert(p.A, 101, 200)
	waitRows(t, subscriber, 200)
	consumed := p.rows(p.A, "td")
	wantRows(t, consumed, 101, 200)
	p.insert(p.A, 201, 300)
	p.catchUp(p.A, p.B, "td")
	known := confirmed(t, p.A, "td")
	p.createSlot(p.A, "late")
	p.insert(p.A, 301, 310)
	p.waitReady(p.B, "late")
	if err := p.A.Server.WaitForStandby(t.Context(), p.B.Server); err != nil {
		t.Fatal(err)
	}
	if err := p.A.Server.Kill9(); err != nil {
		t.Fatal(err)
	}
	report := p.promote(p.B)

	for _, slot := range []string{"sub", "td", "late"} {
		if !exists(t, p.B, slot) {
			t.Errorf("slot %s is not on the new primary: %+v", slot, report)
		}
	}
	if l := confirmed(t, p.B, "td"); l < known {
		t.Errorf("td is at %v, the last known position of its consumer was %v: more than that is sent twice", l, known)
	}
	clustertest.Exec(t, subscriber, "postgres", fmt.Sprintf("ALTER SUBSCRIPTION sub CONNECTION '%s'", p.B.Server.Conninfo("postgres")))
	p.insert(p.B, 311, 400)
	waitRows(t, subscriber, 400)
	wantRows(t, p.rows(p.B, "td"), 201, 400)
	wantRows(t, p.rows(p.B, "late"), 301, 400)

	err := p.B.Server.Exec(t.Context(), "postgres", "SELECT * FROM pg_logical_slot_get_changes('behind', NULL, NULL)")
	if err == nil || !strings.Contains(err.Error(), `replication slot "behind" does not exist`) {
		t.Errorf("the subscriber that was behind got %v", err)
	}
}

// waitRows waits until a subscriber has exactly so many rows, counted by key.
func waitRows(t *testing.T, s *cluster.Server, n int64) {
	t.Helper()
	poll.Require(t, waitTime, fmt.Sprintf("%d rows on %s", n, s.Name()), func(context.Context) (bool, string) {
		got := clustertest.Value[int64](t, s, "postgres", "SELECT count(DISTINCT i) FROM t WHERE i BETWEEN 1 AND $1", n)
		return got == n, fmt.Sprint(got)
	})
}

// Switchover A to B to A to B: after each leg the slots are ready again on the
// new standby without hands, and consumers lose nothing on the way (I-9).
func TestSwitchoverThereAndBack(t *testing.T) {
	each(t, func(t *testing.T, p *testPair) {
		p.waitAnchor(p.B)
		p.createSlot(p.A, "one")
		p.createSlot(p.A, "two")
		p.waitReady(p.B, "one")
		p.waitReady(p.B, "two")
		primary, standby := p.A, p.B
		next := 1
		for leg := range 3 {
			p.insert(primary, next, next+9)
			wantRows(t, p.rows(primary, "one"), next, next+9)
			p.insert(primary, next+10, next+19)
			p.catchUp(primary, standby, "one", "two")
			if err := p.Switchover(t.Context(), primary, standby); err != nil {
				t.Fatalf("leg %d: %v", leg, err)
			}
			primary, standby = standby, primary
			p.report(primary)
			p.insert(primary, next+20, next+29)
			wantRows(t, p.rows(primary, "one"), next+10, next+29)
			wantRows(t, p.rows(primary, "two"), next, next+29)
			began := time.Now()
			p.waitReady(standby, "one")
			p.waitReady(standby, "two")
			t.Logf("leg %d: ready on %s after %s", leg, standby.Name, time.Since(began).Round(time.Millisecond))
			next += 30
		}
	})
}
