package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// configFile writes a configuration and returns its path.
func configFile(t *testing.T, mode os.FileMode, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slotferry.yaml")
	writeConfig(t, path, mode, lines...)
	return path
}

func writeConfig(t *testing.T, path string, mode os.FileMode, lines ...string) {
	t.Helper()
	err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), mode)
	if err == nil {
		err = os.Chmod(path, mode) // whatever the umask is
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wants fails for every text that is not in got.
func wants(t *testing.T, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in:\n%s", text, got)
		}
	}
}

// TestBadConfig has everything wrong that can be, and is told all of it with the
// place.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	path := configFile(t, 0o600,
		"upstream: host=a port=x",
		"lisen: 127.0.0.1:0",
		"standby: host=b",
		"http: [a, b]",
		"refuse-tls: perhaps",
		"interval: true",
		"poll-interval: abc",
		"slot: ['[', ok]",
		"dry-run: true",
		"config: other.yaml",
		"upstream: host=c",
		"log-level:",
		"quux: 1",
	)
	got := execute(t, nil, "", "relay", "--config", path)
	if got.status != exitUsage || got.stdout != "" {
		t.Errorf("status %d, stdout %q", got.status, got.stdout)
	}
	wants(t, got.stderr,
		path+":1:11: upstream: ", path+":2:1: lisen: slotferry relay has no such setting", "Did you mean listen?",
		path+":3:1: standby: ", "It is one of helper and solo", path+":4:7: http: it takes one value, not a list",
		path+`:5:13: refuse-tls: "perhaps" is neither true nor false`, path+":6:11: interval: it takes a value",
		path+`:7:16: poll-interval: "abc" is not a duration`, path+`:8:7: slot: "[" is not a pattern`,
		path+":9:1: dry-run: this is no setting", path+":10:1: config: this is no setting",
		path+":11:1: upstream: it is already set in line 1", path+":12:11: log-level: it has no value",
		path+":13:1: quux: ", `"slotferry relay --help"`, "--listen is needed",
	)
	for _, test := range []struct{ path, want string }{
		{filepath.Join(t.TempDir(), "none.yaml"), "SLOTFERRY_CONFIG: "}, {t.TempDir(), "SLOTFERRY_CONFIG: "},
		{configFile(t, 0o600, "a: 'x"), ":2:1: found unexpected end of stream"},
	} {
		got := execute(t, []string{"SLOTFERRY_CONFIG=" + test.path}, "", "helper")
		if got.status != exitUsage {
			t.Errorf("status %d", got.status)
		}
		wants(t, got.stderr, test.want)
	}
}

// TestConfigSecret shows who may read a file with a password in it.
func TestConfigSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	for _, test := range []struct {
		mode     os.FileMode
		password string
		good     bool
	}{
		{0o600, " password=" + secret, true},
		{0o400, " password=" + secret, true},
		{0o644, " password=" + secret, false},
		{0o604, " password=" + secret, false},
		{0o660, " password=" + secret, false},
		{0o640, " password=" + secret, true},
		{0o644, "", true},
	} {
		path := configFile(t, test.mode, "upstream: host=db1 user=repl"+test.password, "listen: 127.0.0.1:0")
		got := execute(t, nil, "", "relay", "--config", path, "--print-config")
		if good := got.status == exitOK; good != test.good {
			t.Errorf("%04o%s: status %d\n%s", test.mode, test.password, got.status, got.stderr)
		}
		if all := got.stdout + got.stderr; strings.Contains(all, secret) {
			t.Errorf("it is shown:\n%s", all)
		}
		if !test.good {
			wants(t, got.stderr, path+":1:11: upstream: it has a password", "hint: chmod it to u=rw,g=r (0640) or less")
		}
		if test.good && test.password != "" {
			wants(t, got.stdout, "upstream: host=db1 user=repl", "password left out")
		}
	}
}

// TestPrintConfig shows where each value came from, and that what is printed means
// the same when it is read.
func TestPrintConfig(t *testing.T) {
	t.Parallel()
	path := configFile(t, 0o600,
		"upstream: postgres://repl:hunter2hunter2@db1:5433/postgres?application_name=x%20y",
		"standby: \"host=/run/pg options='-c \\\"a b\\\"'\"",
		"state-dir: /nowhere/at/all", // it is not made
		"interval: 3s",
		"max-sessions: 007",
		"slot: [a*, 'b,c', 'on', '1']",
		"refuse-tls: true",
		"exclude-slot: []",
	)
	env := []string{"SLOTFERRY_DATABASE=x,y", "SLOTFERRY_MAX_SESSIONS=7", "PGPORT=5499", "PGPASSWORD=hunter2hunter2"}
	args := []string{"solo", "--config", path, "--interval", "4s", "--print-config"}
	got := execute(t, env, "", args...)
	if got.status != exitOK || got.stderr != "" {
		t.Fatalf("status %d\n%s", got.status, got.stderr)
	}
	wants(t, got.stdout,
		"upstream: postgres://repl@db1:5433/postgres?application_name=x%20y", path+":1:11, password left out",
		"interval: 4s", "--interval; wins over "+path+":4:1", "max-sessions: 7", "SLOTFERRY_MAX_SESSIONS; wins over "+path+":5:1",
		"slot:", "  - b,c\n", "  - 1\n", "database:", "# SLOTFERRY_DATABASE", "poll-interval: 80ms", "# default",
		"#   port 5499 ", "# PGPORT\n", "#   password ", "# PGPASSWORD\n",
		"# exclude-slot:", "# not set, "+path, "# http:", "# not set\n", "refuse-tls: true",
	)
	again := configFile(t, 0o600, got.stdout)
	second := execute(t, nil, "", "solo", "--config", again, "--print-config")
	if second.status != exitOK || settingsIn(second.stdout) != settingsIn(got.stdout) {
		t.Errorf("status %d, %s\nread again it is\n%s\nwas\n%s", second.status, second.stderr, second.stdout, got.stdout)
	}
	// What is wrong is said, and what is in force shown all the same.
	bad := execute(t, env, "", append(args, "--anchor-budget", "1XB")...)
	if bad.status != exitUsage {
		t.Errorf("status %d", bad.status)
	}
	wants(t, bad.stdout, "anchor-budget: 1XB", "# --anchor-budget")
	wants(t, bad.stderr, `--anchor-budget: "1XB" is not a size`)
}

// settingsIn leaves the comments out of what --print-config prints.
func settingsIn(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if before, _, _ := strings.Cut(line, "  # "); !strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, strings.TrimSpace(before))
		}
	}
	return out.String()
}

// TestEverySettingHasAPlaceInTheFile sets every setting of every command by a file,
// to what it is by default or to some text, and looks whether it arrives.
func TestEverySettingHasAPlaceInTheFile(t *testing.T) {
	t.Parallel()
	for _, command := range configurable() {
		var lines []string
		count := 0
		for _, f := range command.Flags {
			name := f.Names()[0]
			if slices.Contains(notSettings, name) {
				continue
			}
			count++
			switch f := f.(type) {
			case *cli.BoolFlag:
				lines = append(lines, name+": true")
			case *cli.StringSliceFlag:
				lines = append(lines, name+": [x, y]")
			case *cli.StringFlag:
				lines = append(lines, name+": "+f.Value+"x")
			}
		}
		path := configFile(t, 0o600, lines...)
		got := execute(t, nil, "", command.Name, "--config", path, "--print-config")
		if n := strings.Count(got.stdout, "# "+path+":"); n != count || count < 10 {
			t.Errorf("%s: %d of %d settings come from the file:\n%s", command.Name, n, count, got.stdout)
		}
	}
}

// TestReload changes the file under a relay: what can change does, what cannot is
// named, and a file with a mistake changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	primary := clustertest.Primary(t, slices.Max(clustertest.Majors(t)), cluster.Config{})
	for _, name := range []string{"a1", "a2", "b1"} {
		clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('"+name+"', 'test_decoding')")
	}
	common := []string{"upstream: " + primary.Conninfo("postgres"), "listen: 127.0.0.1:0", "poll-interval: 20ms"}
	path := configFile(t, 0o600, append(common, "slot: a*")...)
	relay := start(t, nil, "relay", "--config", path)
	slots := func(n int) {
		t.Helper()
		relay.document(t, fmt.Sprintf("%d slots", n), func(d *statusdoc.Document) bool {
			return d.Source() != nil && d.Source().Connected && d.Source().Slots == n
		})
	}
	said := func(texts ...string) {
		t.Helper()
		poll.Require(t, waitLong, "the log to have "+strings.Join(texts, " and "), func(context.Context) (bool, string) {
			log := relay.log()
			for _, text := range texts {
				if !strings.Contains(log, text) {
					return false, log
				}
			}
			return true, ""
		})
	}
	hup := func(lines ...string) {
		t.Helper()
		writeConfig(t, path, 0o600, append(slices.Clone(common), lines...)...)
		if err := relay.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	slots(2)
	hup("slot: [a*, b*]", "exclude-slot: a1", "interval: 3s", "log-level: warn")
	said(`"changed":["slot","exclude-slot"]`, `"needs_restart":["interval"]`, path+":6:11: interval")
	slots(2) // a2, b1
	hup("slot: '['", "exclude-slot: ''", "quux: 1", "tls-cert: /no/such/file", "http: nowhere")
	said("nothing is changed", path+":4:7: slot:", path+":5:15: exclude-slot:", path+":6:1: quux:", "needed together")
	slots(2)
	hup("interval: 1s")
	said(`"changed":["slot","exclude-slot"],"needs_restart":[]`)
	slots(3)
	stopsCleanly(t, relay)
}
