package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

func get(t *testing.T, d *daemon, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + d.http + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestWrongPassword uses a server that asks for one: both sides say so, with what
// to do, and nobody shows which one was tried.
func TestWrongPassword(t *testing.T) {
	const secret = "hunter2hunter2"
	primary := clustertest.Primary(t, slices.Max(clustertest.Majors(t)), cluster.Config{HBA: []string{"host all all 127.0.0.1/32 scram-sha-256"}})
	clustertest.Exec(t, primary, "postgres", "CREATE ROLE ferry LOGIN REPLICATION PASSWORD 'the right one'")
	conninfo := conninfoOf(t, primary.Addr()) + " user=ferry password=" + secret
	solo := start(t, nil, "solo", "--listen", "127.0.0.1:0", "--upstream", conninfo, "--standby", conninfo, "--state-dir", t.TempDir())
	d := solo.document(t, "both to be refused", func(d *statusdoc.Document) bool {
		return strings.Contains(d.SlotSource.Error, "28P01") && strings.Contains(d.Helper.Detail, "28P01")
	})
	if d.SlotSource.Hint == "" || d.Helper.Hint == "" {
		t.Errorf("no hint: %+v, %+v", d.SlotSource, d.Helper)
	}
	_, page := get(t, solo, "/")
	_, status := get(t, solo, "/status")
	if all := solo.output() + page + status; strings.Contains(all, secret) || !strings.Contains(all, "was given on the command line") {
		t.Errorf("output is:\n%s", all)
	}
	stopsCleanly(t, solo)
}

// TestUnreachableUpstream shows that a relay whose upstream is away is a state
// and not an error.
func TestUnreachableUpstream(t *testing.T) {
	relay := start(t, nil, "relay", "--listen", "127.0.0.1:0", "--upstream", conninfoOf(t, freeAddr(t)))
	d := relay.document(t, "the reason", func(d *statusdoc.Document) bool { return d.Source() != nil && d.Source().Error != "" })
	if d.Ready || d.NotReady[0].Reason != statusdoc.ReasonSlotSourceConnected {
		t.Errorf("document says %+v", d.NotReady)
	}
	if code, body := get(t, relay, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, statusdoc.ReasonSlotSourceConnected) {
		t.Errorf("readyz is %d: %s", code, body)
	}
	if code, _ := get(t, relay, "/livez"); code != http.StatusOK {
		t.Errorf("livez is %d", code)
	}
	got := execute(t, nil, "", "status", "--url", relay.http)
	if got.status != exitFailed || !strings.Contains(got.stdout, "NOT READY") || !strings.Contains(got.stdout, "hint: slot_source_not_connected") {
		t.Errorf("status: %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	stopsCleanly(t, relay)
}

// TestSignals sends what a supervisor sends.
func TestSignals(t *testing.T) {
	relay := start(t, nil, "relay", "--listen", "127.0.0.1:0", "--upstream", conninfoOf(t, freeAddr(t)))
	relay.document(t, "it to run", func(*statusdoc.Document) bool { return true })
	if err := relay.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	poll.Require(t, waitLong, "SIGHUP in the log", func(context.Context) (bool, string) {
		return strings.Contains(relay.log(), "SIGHUP: configuration read again"), relay.log()
	})
	if status := relay.end(t, syscall.SIGINT); status != exitOK {
		t.Errorf("exit status after SIGINT is %d", status)
	}
	var last map[string]any
	for line := range strings.Lines(relay.log()) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Errorf("log line is not JSON: %q", line)
		}
	}
	if last["message"] != "stopped" {
		t.Errorf("last words are %v", last)
	}
	if out := relay.output(); out != relay.log() {
		t.Errorf("standard output has something: %q", out)
	}
}

// TestNoRelayUpstream points a helper at a server that is no relay, inline and
// sidecar.
func TestNoRelayUpstream(t *testing.T) {
	primary := clustertest.Primary(t, slices.Max(clustertest.Majors(t)), cluster.Config{})
	addr := freeAddr(t)
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: addr})
	for _, listen := range [][]string{{"--listen", addr}, nil} {
		helper := start(t, nil, append([]string{"helper", "--upstream", primary.Conninfo("postgres"),
			"--standby", standby.Conninfo("postgres"), "--state-dir", t.TempDir()}, listen...)...)
		helper.document(t, "the helper to see that this is no relay", func(d *statusdoc.Document) bool {
			return d.Helper.Reason == decoder.ReasonNoRelay
		})
		stopsCleanly(t, helper)
	}
}

// TestOldStandby has a helper serve PostgreSQL 15, which cannot decode on a
// standby: the standby streams all the same, and the state says why there are no
// slots.
func TestOldStandby(t *testing.T) {
	primary := clustertest.Primary(t, 15, cluster.Config{})
	relayAddr, helperAddr := freeAddr(t), freeAddr(t)
	relay := start(t, nil, "relay", "--listen", relayAddr, "--upstream", primary.Conninfo("postgres"))
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: helperAddr})
	helper := start(t, nil, "helper", "--listen", helperAddr, "--upstream", conninfoOf(t, relayAddr),
		"--standby", standby.Conninfo("postgres"), "--state-dir", t.TempDir())
	helper.document(t, "the reason", func(d *statusdoc.Document) bool { return d.Helper.Reason == decoder.ReasonStandbyVersion })
	clustertest.Exec(t, primary, "postgres", "CREATE TABLE t ()")
	if err := primary.WaitForStandby(t.Context(), standby); err != nil {
		t.Error(err)
	}
	stopsCleanly(t, helper, relay)
}

// TestStateDirectoryOfAnotherNode shows that the helper says so and goes on.
func TestStateDirectoryOfAnotherNode(t *testing.T) {
	major := slices.Max(clustertest.Majors(t))
	state := t.TempDir()
	for i := range 2 {
		primary := clustertest.Primary(t, major, cluster.Config{})
		addr := freeAddr(t)
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: addr})
		solo := start(t, nil, "solo", "--listen", addr, "--upstream", primary.Conninfo("postgres"),
			"--standby", standby.Conninfo("postgres"), "--state-dir", state)
		solo.document(t, "an anchor", anchorLive)
		if aside := strings.Contains(solo.log(), "set-aside"); aside != (i == 1) {
			t.Errorf("round %d: ledger set aside is %v:\n%s", i, aside, solo.log())
		}
		stopsCleanly(t, solo)
	}
}
