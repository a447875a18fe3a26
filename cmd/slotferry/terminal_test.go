package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slotferry/slotferry/internal/poll"
)

// openTerminal returns both ends of a pseudo-terminal of so many rows.
func openTerminal(t *testing.T, rows uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 200}); err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// onTerminal runs a command whose standard output is a terminal until done says
// that it has seen enough, and returns what was shown.
func onTerminal(t *testing.T, rows uint16, env []string, done func(string) bool, args ...string) string {
	t.Helper()
	ours, theirs := openTerminal(t, rows)
	cmd := commandLine(t.Context(), t, env, args...)
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	var mu sync.Mutex
	var shown strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(lockedBuilder{&mu, &shown}, ours) // ends with EIO when nobody holds the other end
	}()
	poll.Require(t, waitLong, "the terminal to show it", func(context.Context) (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		return done(shown.String()), shown.String()
	})
	_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
	_ = cmd.Wait()                         // its status is not what is asked for here
	<-read
	return shown.String()
}

type lockedBuilder struct {
	mu *sync.Mutex
	b  *strings.Builder
}

func (l lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestColorIsForTerminals also checks that the word is there in any case.
func TestColorIsForTerminals(t *testing.T) {
	t.Parallel()
	url := serveDocument(t, helperDocument())
	whole := func(s string) bool { return strings.Contains(s, "hint: plugin_missing") && strings.HasSuffix(s, "\n") }
	for _, test := range []struct {
		env   []string
		color bool
	}{
		{[]string{"TERM=xterm"}, true}, {nil, true}, {[]string{"TERM=xterm", "NO_COLOR=1"}, false}, {[]string{"TERM=dumb"}, false},
	} {
		shown := onTerminal(t, 50, test.env, whole, "status", "--url", url)
		if strings.Contains(shown, "\x1b[") != test.color {
			t.Errorf("%q: colour is %v:\n%q", test.env, !test.color, shown)
		}
		for _, word := range []string{"NOT READY", "ready", "pending", "blocked"} {
			if !strings.Contains(shown, word) {
				t.Errorf("%q: no word %q", test.env, word)
			}
		}
	}
	if got := execute(t, []string{"TERM=xterm"}, "", "status", "--url", url); strings.Contains(got.stdout, "\x1b") {
		t.Errorf("colour in a pipe: %q", got.stdout)
	}
}

// TestWatchOnATerminal writes each round over the one before, within the window,
// and shows who does not answer.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	url, away := serveDocument(t, helperDocument()), freeAddr(t)
	rounds := func(n int) func(string) bool {
		return func(s string) bool { return strings.Count(s, home) >= n }
	}
	shown := onTerminal(t, 50, nil, rounds(3), "status", "--watch", "--every", "100ms", "--url", url, "--url", away)
	for _, want := range []string{"every 100ms", "NO ANSWER", away, "late_sub", noWrap} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %q", want, shown)
		}
	}
	if !strings.HasSuffix(shown, wrapAgain) {
		t.Errorf("the terminal is left as %q", shown[max(0, len(shown)-20):])
	}
	shown = onTerminal(t, 8, nil, rounds(3), "status", "--watch", "--every", "100ms", "--url", url)
	if !strings.Contains(shown, "more lines: make the window higher") || strings.Contains(shown, "late_sub: 16 MB") {
		t.Errorf("a window of eight rows shows %q", shown)
	}
	for round := range strings.SplitSeq(shown, home) {
		if n := strings.Count(round, "\n"); n > 7 {
			t.Errorf("a round has %d lines", n)
		}
	}
}
