package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/internal/statusdoc"
)

func TestStrayVariables(t *testing.T) {
	for _, test := range []struct{ variable, want string }{
		{"SLOTFERRY_INTERVAL=1s", ""},
		{"SLOTFERRY_URL=x", ""},
		{"SLOTFERRY_INTERVALL=1s", "SLOTFERRY_INTERVALL: Did you mean SLOTFERRY_INTERVAL? It stands for --interval."},
		{"SLOTFERRY_HOLDBACK=secret", "SLOTFERRY_HOLDBACK: Did you mean SLOTFERRY_HOLD_BACK? It stands for --hold-back."},
		{"SLOTFERRY_XYZZY_PLUGH=1", "SLOTFERRY_XYZZY_PLUGH: --help of each command has the names of all flags."},
		{"SLOTFERRY_=1", "SLOTFERRY_: --help of each command has the names of all flags."},
		{"SLOTFERRY_interval=1s", "SLOTFERRY_interval: Did you mean SLOTFERRY_INTERVAL? It stands for --interval."},
		{"SLOTFERRY=1", ""},
		{"slotferry_interval=1s", ""},
		{"SLOTFERRY_TEST_MAJORS=17", ""},
		{"SLOTFERRY_PG_BINDIRS=/usr", ""},
		{"SLOTFERRY_BENCH_STAGE=/tmp", ""},
		{"SLOTFERRY_SERVICE_HOST=10.0.0.1", ""},
		{"SLOTFERRY_RELAY_SERVICE_PORT_METRICS=8432", ""},
		{"SLOTFERRY_PORT=tcp://10.0.0.1:6432", ""},
		{"SLOTFERRY_RELAY_PORT_6432_TCP_ADDR=10.0.0.1", ""},
	} {
		got := ""
		for _, v := range strayVariables([]string{"HOME=/root", test.variable}) {
			got += v.variable + ": " + v.hint
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.variable, got, test.want)
		}
	}
}

// A misspelt variable is named by what does not start for want of it, by what is
// asked once, and once in the log of what runs.
func TestMisspeltVariableIsNamed(t *testing.T) {
	t.Parallel()
	env := []string{"SLOTFERRY_UPSTRAEM=host=x password=" + testSecret, "SLOTFERRY_TEST_X=1"}
	const want = "SLOTFERRY_UPSTRAEM is ignored: no flag has that name"
	hint := "Did you mean SLOTFERRY_UPSTREAM? It stands for --upstream."
	for _, args := range [][]string{
		{"relay", "--listen", "127.0.0.1:0"}, {"relay", "--listen", "127.0.0.1:0", "--upstream", "host=x", "--print-config"},
		{"check"}, {"debug", "decode", filepath.Join(t.TempDir(), "none")},
	} {
		got := execute(t, env, "", args...)
		if strings.Count(got.stderr, "slotferry: "+want) != 1 || !strings.Contains(got.stderr, "hint: "+hint) || strings.Contains(got.stdout, "UPSTRAEM") {
			t.Errorf("%q: stderr is\n%s", args, got.stderr)
		}
	}
	d := start(t, env, "relay", "--listen", "127.0.0.1:0", "--upstream", "host=127.0.0.1 port=1 user=x dbname=x")
	d.document(t, "an answer", func(*statusdoc.Document) bool { return true })
	if status := d.end(t, syscall.SIGTERM); status != exitOK {
		t.Errorf("exit status %d", status)
	}
	if log := d.output(); strings.Count(log, `"variable":"SLOTFERRY_UPSTRAEM"`) != 1 || !strings.Contains(log, hint) || strings.Contains(log, "SLOTFERRY_TEST_X") {
		t.Errorf("the log is\n%s", log)
	}
}
