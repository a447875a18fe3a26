package main

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// TestUsageErrors runs what cannot work. Each names all that is wrong at once,
// on standard error, and nothing is started.
func TestUsageErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	inUse := taken.Addr().String()
	noDir := filepath.Join(contentsFile(t), "below", "a", "file")

	for _, test := range []struct {
		name string
		env  []string
		args []string
		want []string // in stderr
	}{
		{"no command", nil, nil, []string{"no command given", `hint: Run "slotferry --help"`}},
		{"unknown command", nil, []string{"rellay"}, []string{`unknown command "rellay"`, "Did you mean relay?"}},
		{"unknown command below debug", nil, []string{"debug", "decod"}, []string{`debug: unknown command "decod"`, "Did you mean decode?"}},
		{"no command below debug", nil, []string{"debug"}, []string{"no command given", `"slotferry debug --help"`}},
		{"help for an unknown command", nil, []string{"help", "chek"}, []string{`unknown command "chek"`, "Did you mean check?"}},
		{"unknown flags, all of them", nil, []string{"relay", "--listne", ":1", "--nope", "-x=1"},
			[]string{`unknown flag "--listne"`, "Did you mean --listen?", `unknown flag "--nope"`, `unknown flag "--x"`}},
		{"flag behind an argument", nil, []string{"debug", "decode", "file", "--format", "raw"},
			[]string{`flag --format stands behind the argument "file"`, "hint: Put all flags before the argument."}},
		{"argument where none is taken", nil, []string{"relay", "--refuse-tls", "true", "--listen", ":1"},
			[]string{`relay: takes no argument, but "true" is given`, `flag --listen stands behind the argument "true"`}},
		{"two arguments", nil, []string{"debug", "decode", "a", "b", "c"}, []string{`takes one argument, but "b" is given too`}},
		{"argument behind --", nil, []string{"version", "--", "x"}, []string{`takes no argument, but "x" is given`}},
		{"value missing", nil, []string{"relay", "--listen"}, []string{"--listen needs a value"}},
		{"value is a flag", nil, []string{"relay", "--listen", "--upstream", "x"}, []string{"--listen needs a value, but --upstream follows it"}},
		{"given twice", nil, []string{"relay", "--upstream", "a=b", "--upstream=c=d"}, []string{"--upstream is given twice"}},
		{"bad truth", nil, []string{"relay", "--refuse-tls=perhaps"}, []string{`"perhaps" is neither true nor false`}},
		{"bad truth in the environment", []string{"SLOTFERRY_REFUSE_TLS=perhaps"}, []string{"relay"},
			[]string{`SLOTFERRY_REFUSE_TLS: "perhaps" is neither true nor false`}},
		{"all that is needed", nil, []string{"helper"}, []string{"--upstream is needed", "--standby is needed", "--state-dir is needed"}},
		{"every bad setting of a relay", nil, []string{
			"relay", "--listen", "nonsense", "--listen", inUse, "--upstream", "host=a port=x", "--slots", "host=a sslmode=perhaps",
			"--helper-url", "ftp://x", "--interval", "abc", "--poll-interval", "99h", "--slot", "[", "--exclude-slot", "[", "--database", "",
			"--http", inUse, "--log-level", "loud",
		}, []string{
			`--listen: "nonsense" is not an address`, "--listen: listen on " + inUse, "--upstream: ", "--slots: ", "--helper-url: ",
			`--interval: "abc" is not a duration`, "--poll-interval: 99h0m0s is not within", `--slot: "[" is not a pattern`,
			`--exclude-slot: "[" is not a pattern`, `--database: "" is not a pattern`, "--http: listen tcp " + inUse, `--log-level: "loud"`,
		}},
		{"every bad setting of a helper", nil, []string{
			"helper", "--upstream", "x", "--standby", "postgres://[", "--state-dir", noDir, "--max-sessions", "0",
			"--advance-interval", "1ns", "--anchor-budget", "1XB",
		}, []string{
			"--upstream: ", "--standby: not a valid connection URI", "--state-dir: ", "--max-sessions: 0 is not within",
			"--advance-interval: 1ns is not within", `--anchor-budget: "1XB" is not a size`,
		}},
		{"from the environment", []string{
			"SLOTFERRY_INTERVAL=abc", "SLOTFERRY_LISTEN=nonsense", "SLOTFERRY_UPSTREAM=host=a port=x", "SLOTFERRY_HTTP=y", "SLOTFERRY_POLL_INTERVAL=z",
		}, []string{"solo", "--poll-interval", "0"}, []string{
			"SLOTFERRY_INTERVAL: ", "SLOTFERRY_LISTEN: ", "SLOTFERRY_UPSTREAM: ", "SLOTFERRY_HTTP: ", "--poll-interval: ",
		}},
		{"poll slower than the heartbeat", nil, []string{"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--interval", "1s", "--poll-interval", "2s"},
			[]string{"--poll-interval: 2s is longer than --interval, 1s"}},
		{"every bad setting of the status server", nil, []string{
			"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--http", "127.0.0.1:0",
			"--http-token-file", contentsFile(t), "--http-tls-cert", noDir, "--http-tls-key", noDir,
		}, []string{"--http: token file", "--http: load certificate"}},
		{"half a certificate", nil, []string{
			"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--http", "127.0.0.1:0", "--http-tls-key", noDir,
		}, []string{"--http-tls-cert and --http-tls-key are needed together"}},
		{"a token for nothing", nil, []string{"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--http-token-file", noDir},
			[]string{"have no meaning without --http"}},
		{"every bad setting of hold-back", nil, []string{
			"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--hold-back", "ANY 2 (s1,)", "--hold-back-exempt", "[", "--hold-back-timeout", "soon",
		}, []string{
			`--hold-back: parse list of standbys "ANY 2 (s1,)": syntax error at or near ")"`, `--hold-back-exempt: "[" is not a pattern`,
			`--hold-back-timeout: "soon" is not a duration`, "a stream that passes in TLS cannot be read", "--tls-cert and --tls-key, or give --refuse-tls",
		}},
		{"hold-back that holds nothing", nil, []string{
			"solo", "--upstream", "host=a", "--standby", "host=b", "--state-dir", t.TempDir(), "--hold-back", "s1", "--refuse-tls",
		}, []string{"--hold-back: no stream passes here"}},
		{"hold-back settings without it", nil, []string{
			"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--hold-back-exempt", "x", "--hold-back-timeout", "1s",
		}, []string{"--hold-back-exempt: it has no meaning without --hold-back", "--hold-back-timeout: it has no meaning without --hold-back"}},
		{"a name that is no word", nil, []string{"helper", "--upstream", "host=a", "--standby", "host=b", "--state-dir", t.TempDir(), "--node-name", "a\nb"},
			[]string{`--node-name: "a\nb" is not a name`}},
		{"nothing to check", nil, []string{"check"}, []string{"nothing to check"}},
		{"bad check", nil, []string{"check", "--upstream", "x", "--standby", "y", "--url", "ftp://z"}, []string{"--upstream: ", "--standby: ", "--url: "}},
		{"no url", nil, []string{"status"}, []string{"--url is needed"}},
		{"bad format", nil, []string{"debug", "encode", "--format", "octal", "--part-size", "1"}, []string{"--format: ", "--part-size: "}},
		{"no shell", nil, []string{"completion"}, []string{`"" is not a shell`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, test.env, "", test.args...)
			if got.status != exitUsage || got.stdout != "" {
				t.Errorf("status %d, stdout %q", got.status, got.stdout)
			}
			for _, want := range test.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("no %q in:\n%s", want, got.stderr)
				}
			}
			for line := range strings.Lines(got.stderr) {
				if !strings.HasPrefix(line, "slotferry: ") && !strings.HasPrefix(line, "hint: ") {
					t.Errorf("stray line %q", line)
				}
			}
		})
	}
}

// contentsFile returns the path of a plain file.
func contentsFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("main.go")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHelp asks every command for its help: on standard output, at most 80
// columns wide, and every flag has a text and its variable a name.
func TestHelp(t *testing.T) {
	var walk func(path []string, commands []*cli.Command)
	walk = func(path []string, commands []*cli.Command) {
		for _, args := range [][]string{
			slices.Concat(path, []string{"--help"}), slices.Concat(path, []string{"-h"}), slices.Concat([]string{"help"}, path),
		} {
			got := execute(t, nil, "", args...)
			if got.status != exitOK || got.stderr != "" || !strings.Contains(got.stdout, "Usage: "+strings.Join(append([]string{"slotferry"}, path...), " ")) {
				t.Errorf("%q: status %d, stderr %q, stdout:\n%s", args, got.status, got.stderr, got.stdout)
			}
			for line := range strings.Lines(got.stdout) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
					t.Errorf("%q: a line is %d columns wide: %s", args, n, line)
				}
				if strings.ContainsAny(line, "`\t") || strings.Contains(line, "..\n") {
					t.Errorf("%q: a line is not finished: %s", args, line)
				}
			}
		}
		for _, c := range commands {
			if c.Description == "" || c.Usage == "" {
				t.Errorf("%s has no description", c.Name)
			}
			for _, f := range c.Flags {
				if doc, ok := f.(cli.DocGenerationFlag); ok && f.Names()[0] != "help" {
					if value, _ := placeholder(doc.GetUsage()); doc.TakesValue() && value == "" {
						t.Errorf("%s --%s: its value has no name", c.Name, f.Names()[0])
					}
					if env := doc.GetEnvVars(); len(env) != 1 || env[0] != envName(f.Names()[0]) {
						t.Errorf("%s --%s: its variables are %q", c.Name, f.Names()[0], env)
					}
				}
			}
			walk(append(append([]string{}, path...), c.Name), c.Subcommands)
		}
	}
	walk(nil, newApp(streams{}).Commands)
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		got := execute(t, nil, "", arg)
		if got.status != exitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "slotferry ") || strings.Count(got.stdout, "\n") != 1 {
			t.Errorf("%s: %+v", arg, got)
		}
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string][]string{
		"bash": {`"debug decode") words="--format`, `"") words="relay helper solo`, "complete -o default -F _slotferry slotferry"},
		"zsh":  {"#compdef slotferry\n", "('debug decode') items=('--format:"},
		"fish": {"-l anchor-budget -r", "-a decode"},
	} {
		got := execute(t, nil, "", "completion", shell)
		for _, w := range want {
			if got.status != exitOK || got.stderr != "" || !strings.Contains(got.stdout, w) {
				t.Errorf("%s: status %d, no %q in:\n%s", shell, got.status, w, got.stdout)
			}
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "65536": 65536, "1kB": 1024, "512MiB": 512 << 20, "1GiB": 1 << 30, "1 GB": 1 << 30, "2tb": 2 << 40, "16m": 16 << 20,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5GB", "GB", "1XB", "99999999999999999999", "18446744073709551615kB", "1 G B"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d", text, got)
		}
	}
}
