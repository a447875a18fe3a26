package rig

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// Taking slotferry into and out of service: a dry run says what would be done and
// does nothing, --drop-all leaves the standby without a slot of ours and with all
// others.
func TestDryRunAndDropAll(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Sidecar)
		p.waitAnchor(p.B)
		p.createSlot(p.A, "one")
		p.createSlot(p.A, "two")
		p.waitReady(p.B, "one")
		p.waitReady(p.B, "two")
		clustertest.Exec(t, p.B.Server, "postgres",
			"SELECT pg_copy_logical_replication_slot(slot_name, 'somebodys', false) FROM pg_replication_slots WHERE temporary LIMIT 1",
			"SELECT pg_create_physical_replication_slot('physical')")

		if out, code := p.run(p.B, "helper", "--drop-all"); code != 1 || !strings.Contains(out, "Stop the helper first") {
			t.Errorf("while the helper runs: status %d, %s", code, out)
		}
		if err := p.B.Helper.Stop(); err != nil {
			t.Fatal(err)
		}
		p.createSlot(p.A, "three")
		out, code := p.run(p.B, "helper", "--dry-run", "--upstream", p.RelayConninfo(p.B))
		for _, want := range []string{"slot one ready", "slot three pending: no_anchor", "anchor create"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("dry run: status %d, want %q in:\n%s", code, want, out)
			}
		}
		if exists(t, p.B, "three") {
			t.Error("a dry run has made a slot")
		}

		// A ledger that is not this node's says nothing of its slots, and is still there.
		out, code = p.run(p.B, "helper", "--drop-all", "--node-name", "another")
		if code != 1 || !strings.Contains(out, "another node's") || !strings.Contains(out, "--node-name") || !exists(t, p.B, "one") {
			t.Errorf("under another name: status %d, %s", code, out)
		}
		out, code = p.run(p.B, "helper", "--dry-run", "--node-name", "another", "--upstream", p.RelayConninfo(p.B))
		if code != 0 || !strings.Contains(out, "ledger is not of this node and is left out") {
			t.Errorf("dry run under another name: status %d, %s", code, out)
		}
		out, code = p.runIn(p.B, t.TempDir(), "helper", "--drop-all")
		if code != 1 || !strings.Contains(out, "has no ledger") || !exists(t, p.B, "one") {
			t.Errorf("with another state directory: status %d, %s", code, out)
		}

		out, code = p.run(p.B, "helper", "--drop-all")
		if code != 0 || !strings.Contains(out, "dropped one\ndropped two\n") {
			t.Errorf("drop all: status %d, %s", code, out)
		}
		for slot, want := range map[string]bool{"one": false, "two": false, "somebodys": true, "physical": true} {
			if exists(t, p.B, slot) != want {
				t.Errorf("slot %s is there: %t, want %t", slot, !want, want)
			}
		}
		if out, code = p.run(p.B, "helper", "--drop-all"); code != 0 || !strings.Contains(out, "no slot of slotferry's") {
			t.Errorf("a second time: status %d, %s", code, out)
		}
	})
}

// run runs a command of the binary with a node's helper's settings to its end.
func (p *testPair) run(n *Node, args ...string) (output string, status int) {
	p.t.Helper()
	return p.runIn(n, p.stateDir(n), args...)
}

// runIn is run with another state directory.
func (p *testPair) runIn(n *Node, stateDir string, args ...string) (output string, status int) {
	p.t.Helper()
	args = append(args, "--standby", p.serverConninfo(n), "--state-dir", stateDir)
	out, err := exec.CommandContext(p.t.Context(), p.cfg.Binary, args...).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return string(out), 0
}
