package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
)

const patience = 10 * time.Second

// echo is a target that sends back what it gets, and the end too.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func start(t *testing.T, target string) *Proxy {
	p, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

// silent checks that nothing comes although something has had the time to.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, want silence", n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

// gone checks that the connection ends, cleanly or not.
func gone(t *testing.T, c net.Conn) []byte {
	t.Helper()
	got, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is still open")
	}
	return got
}

func TestForwardsBothWaysAndTheEnd(t *testing.T) {
	p := start(t, echo(t))
	c := dial(t, p)
	want := bytes.Repeat([]byte("slotferry"), 100_000)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = c.Write(want)
		_ = c.CloseWrite()
	})
	got, err := io.ReadAll(c)
	wg.Wait()
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
	for _, d := range []Direction{Up, Down} {
		if n := p.Bytes(d); n != int64(len(want)) {
			t.Errorf("direction %d: counted %d bytes, want %d", d, n, len(want))
		}
	}
	if n := p.Accepted(); n != 1 {
		t.Errorf("accepted %d connections, want 1", n)
	}
}

func TestStallOneDirection(t *testing.T) {
	p := start(t, echo(t))
	c := dial(t, p)
	p.Stall(Down)
	say(t, c, "hello")
	poll.Require(t, patience, "bytes to go up", func(context.Context) (bool, string) {
		return p.Bytes(Up) == 5, fmt.Sprint(p.Bytes(Up))
	})
	silent(t, c)
	if n := p.Bytes(Down); n != 0 {
		t.Errorf("%d bytes went down", n)
	}
	p.Resume(Down)
	hear(t, c, "hello")
}

func TestCutAndConnectAgain(t *testing.T) {
	p := start(t, echo(t))
	c := dial(t, p)
	say(t, c, "a")
	hear(t, c, "a")
	p.Cut()
	gone(t, c)
	c = dial(t, p)
	say(t, c, "b")
	hear(t, c, "b")
}

func TestCutAfter(t *testing.T) {
	for _, n := range []int64{0, 1, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := start(t, echo(t))
			c := dial(t, p)
			p.CutAfter(Up, n)
			say(t, c, "0123456789")
			gone(t, c)
			if got := p.Bytes(Up); got != n {
				t.Errorf("%d bytes passed, want %d", got, n)
			}
			// It happens once.
			c = dial(t, p)
			say(t, c, "0123456789")
			hear(t, c, "0123456789")
		})
	}
}

func TestBlackhole(t *testing.T) {
	p := start(t, echo(t))
	p.Blackhole(true)
	c := dial(t, p)
	say(t, c, "anybody there?")
	poll.Require(t, patience, "the connection to be accepted", func(context.Context) (bool, string) {
		return p.Accepted() == 1, ""
	})
	p.Blackhole(false)
	silent(t, c)
	other := dial(t, p)
	say(t, other, "hello")
	hear(t, other, "hello")
	p.Cut()
	gone(t, c)
}

func TestSetTarget(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	p := start(t, dead.Addr().String())
	gone(t, dial(t, p))
	p.SetTarget(echo(t))
	c := dial(t, p)
	say(t, c, "hello")
	hear(t, c, "hello")
}

func TestCloseWhileStalled(t *testing.T) {
	p := start(t, echo(t))
	c := dial(t, p)
	p.Stall(Up)
	say(t, c, "never")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	gone(t, c)
}
