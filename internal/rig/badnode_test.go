package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// wal_level is too low, first on both servers and then on the primary alone: it
// is named, and cleared by restarts of the servers only.
func TestWALLevelIsTooLow(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newTestPairOf(t, major, Config{Mode: Inline, Settings: map[string]string{"wal_level": "replica"}})
		restart := func(n *Node) {
			p.set(n.Server, "wal_level", "logical")
			if err := n.Server.Restart(t.Context(), cluster.Fast); err != nil {
				t.Fatal(err)
			}
		}
		same := p.sameProcesses()
		p.held(decoder.ReasonWALLevel, "wal_level=logical")
		p.flows()
		restart(p.B)
		p.anchorHeld(decoder.ReasonWALLevel, "wal_level=logical")
		p.flows()
		restart(p.A)
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.recovers("s")
		same()
	})
}

// A server that cannot decode on a standby: the helper says so and forwards WAL.
func TestStandbyIsPostgreSQL15(t *testing.T) {
	t.Parallel()
	p := newTestPair(t, 15, Inline)
	p.held(decoder.ReasonStandbyVersion, "PostgreSQL 16 or newer")
	p.createSlot(p.A, "s")
	p.slotHeld("s", decoder.ReasonStandbyVersion, "PostgreSQL 16 or newer")
	p.flows()
	if exists(t, p.B, "s") {
		t.Error("the slot is on the standby")
	}
}

// The state directory was copied from another node: its ledger is set aside, and
// the slots that are there are taken over by what they are.
func TestStateDirectoryIsOfAnotherNode(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		if err := p.B.Helper.Stop(); err != nil {
			t.Fatal(err)
		}
		ledger := filepath.Join(p.cfg.Dir, "b-state", "ledger.json")
		raw, err := os.ReadFile(ledger)
		if err != nil {
			t.Fatal(err)
		}
		copied := strings.Replace(string(raw), p.B.Server.DataDir(), p.A.Server.DataDir(), 1)
		copied = strings.Replace(copied, `"s"`, `"ghost"`, 2)
		if err := os.WriteFile(ledger, []byte(copied), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.B.Helper.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.recovers("s")
		p.until("the log to say so", func(context.Context) (bool, string) {
			return strings.Contains(p.B.Helper.Log(), "ledger is not of this node and was set aside"), "not there"
		})
		if aside, err := filepath.Glob(ledger + ".set-aside-*"); err != nil || len(aside) != 1 {
			t.Errorf("set aside: %q, %v", aside, err)
		}
		p.flows()
	})
}

// A state directory that cannot be made is told at once, with the exit status of
// bad usage.
func TestStateDirectoryCannotBeMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	proc := newProcess("helper", build(t), dir, "http://"+freeAddr(t), "helper", "--upstream", "host=127.0.0.1 port=1",
		"--standby", "host=127.0.0.1 port=1", "--state-dir", filepath.Join(file, "state"))
	if err := proc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-proc.done
	if status := proc.cmd.ProcessState.ExitCode(); status != 3 {
		t.Errorf("exit status is %d, want 3", status)
	}
	if log := proc.Log(); !strings.Contains(log, "--state-dir") || !strings.Contains(log, "hint: ") {
		t.Errorf("it says %q", log)
	}
}

// The password is wrong everywhere: for the relay's reading, the walreceiver, the
// sidecar and the helper's sessions. Each says so, no secret is in a log, and all
// recover when the servers know the right one again.
func TestPasswordIsWrong(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-and-right"
	inlineOnEach(t, Sidecar, func(t *testing.T, major int, mode Mode) {
		p := newTestPair(t, major, mode)
		password := func(text string) {
			clustertest.Exec(t, p.A.Server, "postgres", fmt.Sprintf("ALTER ROLE postgres PASSWORD '%s'", text))
		}
		password(secret)
		p.flows()
		p.usePassword(secret)
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")

		same := p.sameProcesses()
		password("another")
		p.flows()
		for _, n := range []*Node{p.B, p.A} { // all must log in again
			clustertest.Exec(t, n.Server, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
				"WHERE application_name LIKE 'slotferry%' OR backend_type = 'walsender'")
		}
		p.until("the relay to name the password", func(context.Context) (bool, string) {
			source := p.notReady(p.A.Relay, "slot_source_not_connected")
			return strings.Contains(source.Hint, "password"), fmt.Sprintf("%+v", source)
		})
		p.held(decoder.ReasonStandbyUnreachable, "password")
		// The standby's own sessions again, so that the way to the relay shows.
		if err := p.B.Server.SetHBA(t.Context(), "host all all 127.0.0.1/32 trust"); err != nil {
			t.Fatal(err)
		}
		p.held(decoder.ReasonUpstreamRefused, "password")
		password(secret)
		p.recovers("s")
		p.flows()
		same()
		for _, proc := range []*Process{p.A.Relay, p.B.Helper} {
			if strings.Contains(proc.Log(), secret) {
				t.Errorf("the password is in the log of %s", proc.name)
			}
		}
	})
}

// usePassword makes both servers ask for a password, and all that connects to
// them give it.
func (p *testPair) usePassword(secret string) {
	p.t.Helper()
	for _, n := range []*Node{p.A, p.B} {
		err := n.Server.SetHBA(p.t.Context(), "host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256")
		if err != nil {
			p.t.Fatal(err)
		}
	}
	for proc, flags := range map[*Process][]string{p.A.Relay: {"--upstream"}, p.B.Helper: {"--standby", "--upstream"}} {
		if err := proc.Stop(); err != nil {
			p.t.Fatal(err)
		}
		for i, arg := range proc.args[1:] {
			for _, flag := range flags {
				if proc.args[i] == flag {
					proc.args[i+1] = arg + " password=" + secret
				}
			}
		}
	}
	for _, proc := range []*Process{p.A.Relay, p.B.Helper} {
		if err := proc.Start(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
	p.set(p.B.Server, "primary_conninfo", p.conninfo(p.B)+" password="+secret)
}
