package rig

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// cascade hangs a third node behind B: relay in front of B, helper beside C,
// standby C. The relay asks the helper of B which slots are ready there; flags are
// more flags of it.
func (p *testPair) cascade(flags ...string) *Node {
	p.t.Helper()
	port := func() string {
		n, release, err := cluster.FreePort()
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(release)
		return "127.0.0.1:" + strconv.Itoa(n)
	}
	c := &Node{Name: "c", listen: port()}
	relayAt, relayHTTP, helperHTTP, server := port(), port(), port(), port()
	_, serverPort, _ := net.SplitHostPort(server)
	_, relayPort, _ := net.SplitHostPort(relayAt)
	p.ports["c-upstream-relay"], _ = strconv.Atoi(relayPort) // it was made of a number
	c.Relay = newProcess("c-upstream-relay", p.cfg.Binary, p.cfg.Dir, "http://"+relayHTTP, append([]string{"relay", "--listen", relayAt,
		"--upstream", p.serverConninfo(p.B), "--helper-url", p.B.Helper.URL(), "--http", relayHTTP}, flags...)...)
	c.Helper = newProcess("c-helper", p.cfg.Binary, p.cfg.Dir, "http://"+helperHTTP, "helper", "--listen", c.listen,
		"--upstream", "host=127.0.0.1 user=postgres port="+relayPort, "--state-dir", p.stateDir(c), "--http", helperHTTP,
		"--standby", fmt.Sprintf("host=127.0.0.1 port=%s user=postgres dbname=postgres", serverPort), "--advance-interval", "1s")
	if err := c.start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		for _, proc := range []*Process{c.Helper, c.Relay} {
			if p.t.Failed() {
				p.t.Log("---- " + proc.name + "\n" + proc.Log())
			}
			if err := proc.Stop(); err != nil {
				p.t.Error(err)
			}
		}
	})
	number, err := strconv.Atoi(serverPort)
	if err != nil {
		p.t.Fatal(err)
	}
	c.Server = clustertest.Standby(p.t, p.B.Server, cluster.StandbyConfig{
		Name: "c", SlotName: "c", Port: number, PrimaryConninfo: p.conninfo(c),
	})
	return c
}

// Readiness is handed on along a cascade and never upgraded. When the middle node
// is promoted, the last one's slots become ready again behind it, and serve after
// a second failover; when the last node is promoted instead, they serve at once.
func TestCascade(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		c := p.cascade()
		p.waitAnchor(c)
		// The slot was born before the last node's anchor: its subscriber moves on.
		p.insert(p.A, 1, 10)
		wantRows(t, p.rows(p.A, "s"), 1, 10)
		p.waitReady(c, "s")
		p.createSlot(p.A, "young")
		p.waitReady(c, "young")

		if err := p.B.Helper.Kill9(); err != nil { // nobody knows what B's slots are worth
			t.Fatal(err)
		}
		p.waitNotReady(c, "s")
		if err := p.B.Helper.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.waitReady(c, "s")

		p.insert(p.A, 11, 20)
		p.waitReplay(p.A, p.B, c)
		if err := p.A.Server.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(p.B)
		p.insert(p.B, 21, 30)
		wantRows(t, p.rows(p.B, "s"), 11, 30)
		p.waitReady(c, "s")
		p.waitReady(c, "young")
		p.insert(p.B, 31, 40)
		p.waitReplay(p.B, c)
		if err := p.B.Server.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(c)
		p.insert(c, 41, 50)
		wantRows(t, p.rows(c, "s"), 31, 50)
		wantRows(t, p.rows(c, "young"), 11, 50)
	})
}

// waitReplay waits until standbys have replayed what a primary has written.
func (p *testPair) waitReplay(primary *Node, standbys ...*Node) {
	p.t.Helper()
	lsn, err := primary.Server.CurrentLSN(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, n := range standbys {
		if err := n.Server.WaitForReplay(p.t.Context(), lsn); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *testPair) waitNotReady(n *Node, slot string) decoder.SlotStatusJSON {
	p.t.Helper()
	return p.waitSlot(n, slot, decoder.StatePending, decoder.ReasonUpstreamNotReady)
}

// The last node of a cascade is promoted while the others live.
func TestCascadeEndIsPromoted(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.waitAnchor(p.B)
		c := p.cascade()
		p.waitAnchor(c)
		p.createSlot(p.A, "s")
		p.waitReady(c, "s")
		p.insert(p.A, 1, 10)
		p.waitReplay(p.A, p.B, c)
		p.promote(c)
		p.insert(c, 11, 20)
		wantRows(t, p.rows(c, "s"), 1, 20)
		p.waitReady(p.B, "s")
	})
}
