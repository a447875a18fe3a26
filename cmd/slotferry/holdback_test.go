package main

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// TestReloadOfHoldBack changes the standbys under a relay, which does at once; turned
// off it cannot be.
func TestReloadOfHoldBack(t *testing.T) {
	t.Parallel()
	common := []string{"upstream: host=127.0.0.1 port=1 user=x dbname=x", "listen: 127.0.0.1:0", "refuse-tls: true"}
	path := configFile(t, 0o600, append(common, "hold-back: s1, s2")...)
	relay := start(t, nil, "relay", "--config", path)
	holdsBack := func(standbys string, exempt int, timeout float64) {
		t.Helper()
		relay.document(t, "hold-back behind "+standbys, func(d *statusdoc.Document) bool {
			h := d.Relay.HoldBack
			return h != nil && h.Standbys == standbys && len(h.Exempt) == exempt && h.Timeout == timeout
		})
	}
	hup := func(want string, lines ...string) {
		t.Helper()
		writeConfig(t, path, 0o600, append(append([]string{}, common...), lines...)...)
		if err := relay.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		poll.Require(t, waitLong, "the log to have "+want, func(context.Context) (bool, string) {
			return strings.Contains(relay.log(), want), relay.log()
		})
	}
	holdsBack("s1, s2", 0, 0)
	hup(`"changed":["hold-back","hold-back-exempt","hold-back-timeout"],"needs_restart":[]`,
		"hold-back: ANY 1 (s2)", "hold-back-exempt: [a*, b]", "hold-back-timeout: 30s")
	holdsBack("ANY 1 (s2)", 2, 30)
	hup("syntax error at end of input", "hold-back: 'ANY 1 (s2'")
	holdsBack("ANY 1 (s2)", 2, 30)
	hup(`"needs_restart":["hold-back","hold-back-exempt","hold-back-timeout"]`)
	holdsBack("ANY 1 (s2)", 2, 30)
	stopsCleanly(t, relay)
}
