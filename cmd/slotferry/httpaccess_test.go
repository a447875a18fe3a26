package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/testcert"
)

// secretFile writes a file that only its owner may read.
func secretFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTokenAndHTTPS asks a process that lets in who knows a token, over HTTPS, by
// the commands that ask; and gives it another token while it runs.
func TestTokenAndHTTPS(t *testing.T) {
	t.Parallel()
	const token, another = "correct-horse-battery", "another-horse-battery"
	dir := t.TempDir()
	authority, err := testcert.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(dir, "http")
	if err != nil {
		t.Fatal(err)
	}
	ca := secretFile(t, filepath.Join(dir, "ca.crt"), authority.PEM())
	serverToken, ours := filepath.Join(dir, "server.token"), filepath.Join(dir, "our.token")
	secretFile(t, serverToken, token+"\n")
	secretFile(t, ours, token+"\n")
	relay := start(t, nil, "relay", "--listen", "127.0.0.1:0", "--upstream", conninfoOf(t, freeAddr(t)),
		"--http-token-file", serverToken, "--http-tls-cert", cert, "--http-tls-key", key)
	url := "https://" + relay.http
	poll.Require(t, waitLong, "the status", func(context.Context) (bool, string) {
		got := execute(t, nil, "", "status", "--url", url, "--url-token-file", ours, "--url-ca-file", ca)
		return got.status == exitFailed && strings.Contains(got.stdout, "slot_source_not_connected"), fmt.Sprint(got)
	})
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no token":       {[]string{"--url-ca-file", ca}, "without the right token"},
		"no authorities": {[]string{"--url-token-file", ours}, "certificate"},
		"no files":       {[]string{"--url-token-file", filepath.Join(dir, "x"), "--url-ca-file", key}, "no certificate in"},
	} {
		for _, command := range []string{"status", "check"} {
			got := execute(t, nil, "", append([]string{command, "--url", url}, test.args...)...)
			if all := got.stdout + got.stderr; got.status == exitOK || !strings.Contains(all, test.want) || strings.Contains(all, "horse") {
				t.Errorf("%s, %s: status %d\n%s", command, name, got.status, all)
			}
		}
	}
	if got := execute(t, nil, "", "check", "--url", url, "--url-token-file", ours, "--url-ca-file", ca); !strings.Contains(got.stdout, "slot_source_not_connected") {
		t.Errorf("check: %+v", got)
	}

	secretFile(t, serverToken, another)
	if err := relay.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	poll.Require(t, waitLong, "the old token to be refused", func(context.Context) (bool, string) {
		got := execute(t, nil, "", "status", "--url", url, "--url-token-file", ours, "--url-ca-file", ca)
		return strings.Contains(got.stderr, "without the right token"), fmt.Sprint(got)
	})
	if log := relay.output(); strings.Contains(log, "horse") || !strings.Contains(log, `"http_access":true`) {
		t.Errorf("log is:\n%s", log)
	}
	stopsCleanly(t, relay)
}

// TestOpenStatusServerIsWarnedOf starts on an address that others may reach, with
// nothing to keep them out.
func TestOpenStatusServerIsWarnedOf(t *testing.T) {
	t.Parallel()
	token := secretFile(t, filepath.Join(t.TempDir(), "token"), "correct-horse-battery")
	_, port, _ := strings.Cut(freeAddr(t), ":")
	for _, test := range []struct {
		args     []string
		warnings int
	}{
		{[]string{"--http", "0.0.0.0:" + port}, 2},
		{[]string{"--http", ":" + port}, 2},
		{[]string{"--http", "0.0.0.0:" + port, "--http-token-file", token}, 1},
		{[]string{"--http", "127.0.0.1:" + port}, 0},
		{[]string{"--http", "[::1]:" + port}, 0},
		{[]string{"--http", "localhost:" + port}, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		d := &daemon{done: make(chan struct{})}
		d.cmd = commandLine(ctx, t, nil, append([]string{"relay", "--listen", "127.0.0.1:0", "--upstream", conninfoOf(t, freeAddr(t))}, test.args...)...)
		d.cmd.Stderr = lockedWriter{&d.mu, &d.stderr}
		if err := d.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go d.wait()
		poll.Require(t, waitLong, "it to run", func(context.Context) (bool, string) {
			return strings.Contains(d.log(), `"message":"started"`), d.log()
		})
		cancel()
		<-d.done
		if got := strings.Count(d.log(), "does not listen on loopback"); got != test.warnings {
			t.Errorf("%q: %d warnings, want %d:\n%s", test.args, got, test.warnings, d.log())
		}
	}
}
