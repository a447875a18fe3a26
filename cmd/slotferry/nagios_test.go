package main

import (
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/preflight"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

func TestNagiosLine(t *testing.T) {
	fail := preflight.Finding{Level: preflight.Fail, Side: preflight.Standby, Setting: "wal_level", Value: "replica"}
	warn := preflight.Finding{Level: preflight.Warn, Side: preflight.Upstream, Setting: "x|y", Value: "two\nlines"}
	ok := preflight.Finding{Level: preflight.OK, Side: preflight.Upstream, Setting: "fine", Value: "fine"}
	skip := preflight.Finding{Level: preflight.Skip, Side: preflight.Upstream, Setting: "unseen", Value: "unseen"}
	for _, test := range []struct {
		name   string
		doc    checkDocument
		status int
		want   string
	}{
		{"all well", checkDocument{Findings: []preflight.Finding{ok, skip}, Slots: statusdoc.Counts{Ready: 2}, Helpers: 1, lag: 4096, lagTime: 1.25}, nagiosOK,
			"SLOTFERRY OK - 2 of 2 slots ready | failed=0;;;0 warnings=0;;;0 slots_ready=2;;;0 slots_pending=0;;;0 slots_blocked=0;;;0 lag=4096B;;;0 lag_time=1.2s;;;0"},
		{"no helper asked", checkDocument{Findings: []preflight.Finding{ok}}, nagiosOK,
			"SLOTFERRY OK - no helper asked | failed=0;;;0 warnings=0;;;0"},
		{"a warning", checkDocument{Findings: []preflight.Finding{ok, warn}}, nagiosWarning,
			"SLOTFERRY WARNING - no helper asked; upstream x/y is two; lines | failed=0;;;0 warnings=1;;;0"},
		{"the worst first", checkDocument{Findings: []preflight.Finding{warn, fail}}, nagiosCritical,
			"SLOTFERRY CRITICAL - no helper asked; standby wal_level is replica; upstream x/y is two; lines | failed=1;;;0 warnings=1;;;0"},
	} {
		if line, status := nagiosLine(&test.doc); line != test.want || status != test.status {
			t.Errorf("%s: status %d\n%s\nwant %d\n%s", test.name, status, line, test.status, test.want)
		}
	}
	long := checkDocument{}
	for range 100 {
		long.Findings = append(long.Findings, preflight.Finding{Level: preflight.Fail, Setting: strings.Repeat("ä", 30)})
	}
	if line, _ := nagiosLine(&long); len(line) > 400 || !strings.HasSuffix(line, "... | failed=100;;;0 warnings=0;;;0") {
		t.Errorf("a long line is %s", line)
	}
}

// TestNagiosPlugin runs it as a monitoring system does: one line on standard
// output, whatever happens, and the status of a plugin.
func TestNagiosPlugin(t *testing.T) {
	ready := helperDocument()
	ready.Helper.Slots = ready.Helper.Slots[:1]
	ready.Judge()
	for _, test := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"ready", []string{"--url", serveDocument(t, ready)}, nagiosOK, "OK - 1 of 1 slots ready | "},
		{"not ready", []string{"--url", serveDocument(t, helperDocument())}, nagiosCritical, "CRITICAL - 1 of 3 slots ready, 1 pending, 1 blocked; "},
		{"nobody there", []string{"--url", freeAddr(t)}, nagiosCritical, "CRITICAL - no helper answered; helper connection is "},
		{"nothing to check", nil, nagiosUnknown, "UNKNOWN - nothing to check"},
		{"bad conninfo", []string{"--upstream", "host=a port=x password=hunter2hunter2"}, nagiosUnknown, "UNKNOWN - --upstream: "},
		{"two formats", []string{"--json", "--url", freeAddr(t)}, nagiosUnknown, "UNKNOWN - --nagios and --json exclude each other"},
	} {
		got := execute(t, nil, "", append([]string{"check", "--nagios"}, test.args...)...)
		if got.status != test.status || !strings.HasPrefix(got.stdout, "SLOTFERRY "+test.want) || strings.Count(got.stdout, "\n") != 1 ||
			got.stderr != "" || strings.Contains(got.stdout, "hunter2") {
			t.Errorf("%s: status %d, want %d, stderr %q, stdout:\n%s", test.name, got.status, test.status, got.stderr, got.stdout)
		}
	}
}
