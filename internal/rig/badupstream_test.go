package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// The address in --upstream leads nowhere, to a server that is no relay, to the
// relay of another cluster, and at last to the right one: each is a state of its
// own, and the helper lives through all of them.
func TestUpstreamIsNotTheRelay(t *testing.T) {
	t.Parallel()
	inlineOnEach(t, Sidecar, func(t *testing.T, major int, mode Mode) {
		p := newTestPair(t, major, mode)
		other := clustertest.Primary(t, major, cluster.Config{Name: "other"})
		otherAddr := freeAddr(t)
		otherRelay := newProcess("other-relay", p.cfg.Binary, p.cfg.Dir, "http://"+freeAddr(t), "relay", "--listen", otherAddr,
			"--upstream", other.Conninfo("postgres"))
		otherRelay.args = append(otherRelay.args, "--http", strings.TrimPrefix(otherRelay.url, "http://"))
		startProc(t, otherRelay)

		proxy, err := faultproxy.New(freeAddr(t)) // nobody is there
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		if err := p.B.Helper.Stop(); err != nil {
			t.Fatal(err)
		}
		reflag(p.B.Helper, "--upstream", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", proxy.Port()))
		if err := p.B.Helper.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		to := func(addr string) {
			proxy.SetTarget(addr)
			proxy.Cut()
		}
		same := p.sameProcesses()
		p.held(decoder.ReasonUpstreamUnreachable, "--upstream")
		to(p.A.Server.Addr())
		p.held(decoder.ReasonNoRelay, "--upstream")
		p.flows() // from the primary itself, if inline
		to(otherAddr)
		p.held(decoder.ReasonOtherSystem, "--upstream")
		to(fmt.Sprintf("127.0.0.1:%d", p.ports["a-relay"]))
		p.createSlot(p.A, "s")
		p.recovers("s")
		p.flows()
		same()
	})
}

// The server behind a relay, and behind solo, is away: the slot source says so,
// and goes on when it is back.
func TestServerBehindTheRelayIsAway(t *testing.T) {
	t.Parallel()
	inlineOnEach(t, Solo, func(t *testing.T, major int, mode Mode) {
		p := newTestPair(t, major, mode)
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		same := p.sameProcesses()
		proc := p.A.Relay
		if mode == Solo {
			proc = p.B.Helper
		}
		if err := p.A.Server.Kill9(); err != nil {
			t.Fatal(err)
		}
		source := p.notReady(proc, statusdoc.ReasonSlotSourceConnected)
		if !strings.Contains(source.Hint, "upstream server is running") {
			t.Errorf("hint is %q", source.Hint)
		}
		p.until("the log to say so", func(context.Context) (bool, string) {
			return strings.Contains(proc.Log(), "slots cannot be read") && strings.Contains(proc.Log(), source.Hint), "not there"
		})
		p.until("the slot not to be ready", func(ctx context.Context) (bool, string) {
			st, err := p.B.Status(ctx)
			return err == nil && len(st.Slots) == 1 && st.Slots[0].State == decoder.StatePending, fmt.Sprintf("%+v %v", st, err)
		})
		if err := p.A.Server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.recovers("s")
		p.flows()
		same()
	})
}
