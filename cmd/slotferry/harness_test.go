package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// asCommand is set for a test binary that is to be slotferry itself.
const asCommand = "SLOTFERRY_TEST_AS_COMMAND"

// TestMain runs main when a test has started this binary as the command, so that
// exit statuses and streams are those of a process.
func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// commandLine prepares the command in an environment without slotferry's and
// libpq's variables, but for those given and a password.
func commandLine(ctx context.Context, t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = []string{asCommand + "=1", "PGPASSWORD=" + testSecret, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		cmd.Env = append(cmd.Env, "GOCOVERDIR="+dir)
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// outcome is what a finished command left.
type outcome struct {
	status         int
	stdout, stderr string // stderr with every sentence in one line
}

// execute runs the command to its end.
func execute(t *testing.T, env []string, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := commandLine(ctx, t, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	narrowEnough(t, stderr.String())
	noSecret(t, "output of slotferry "+strings.Join(args, " "), stdout.String()+stderr.String())
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), strings.ReplaceAll(stderr.String(), "\n  ", " ")}
}

// narrowEnough checks that errors fit a terminal, but for what is one word. Lines
// of the log are not errors.
func narrowEnough(t *testing.T, stderr string) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		text := strings.TrimSpace(line)
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > helpWidth && strings.Contains(text, " ") && !strings.HasPrefix(text, "{") {
			t.Errorf("a line of standard error is wider than %d columns: %s", helpWidth, line)
		}
	}
}

// waitLong bounds every wait.
const waitLong = time.Minute

// daemon is a command that keeps running.
type daemon struct {
	cmd  *exec.Cmd
	http string
	done chan struct{} // closed when the process has ended
	err  error         // of Wait, once done

	mu     sync.Mutex // stdout and stderr are written while the test reads them
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// start runs a command with a status server, and ends it with the test.
func start(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{http: freeAddr(t), done: make(chan struct{})}
	d.cmd = commandLine(context.Background(), t, env, append(args, "--http", d.http, "--log-level", "debug")...)
	d.cmd.Stdout, d.cmd.Stderr = lockedWriter{&d.mu, &d.stdout}, lockedWriter{&d.mu, &d.stderr}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go d.wait()
	t.Cleanup(func() {
		d.showsNoSecret(t)
		_ = d.cmd.Process.Kill() // it may have ended already
		<-d.done
		noSecret(t, "log of slotferry "+args[0], d.output())
		if t.Failed() {
			t.Logf("log of slotferry %s:\n%s", args[0], d.log())
		}
	})
	return d
}

func (d *daemon) wait() {
	defer close(d.done)
	d.err = d.cmd.Wait()
}

func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stderr.String()
}

func (d *daemon) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stdout.String() + d.stderr.String()
}

// document waits until the status document is as check wants it.
func (d *daemon) document(t *testing.T, what string, check func(*statusdoc.Document) bool) *statusdoc.Document {
	t.Helper()
	url, err := statusdoc.ParseURL(d.http)
	if err != nil {
		t.Fatal(err)
	}
	client, err := statusdoc.NewClient(statusdoc.ClientFiles{})
	if err != nil {
		t.Fatal(err)
	}
	var last *statusdoc.Document
	poll.Require(t, waitLong, what, func(ctx context.Context) (bool, string) {
		select {
		case <-d.done:
			t.Fatalf("slotferry ended, %v:\n%s", d.err, d.log())
		default:
		}
		doc, err := client.Read(ctx, url)
		if err != nil {
			return false, err.Error()
		}
		last = doc
		return check(doc), describe(doc)
	})
	return last
}

func describe(d *statusdoc.Document) string {
	var parts []string
	for _, n := range d.NotReady {
		parts = append(parts, n.Part+" "+n.Slot+" "+n.Reason+" "+n.Detail)
	}
	return strings.Join(parts, "; ")
}

// end sends a signal and returns the exit status.
func (d *daemon) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("slotferry did not end after %v", signal)
	}
	return d.cmd.ProcessState.ExitCode()
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// freeAddr returns an address that nobody listens on at the moment.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
