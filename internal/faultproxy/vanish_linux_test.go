package faultproxy

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Behind Vanish nothing is answered: keepalive probes end a connection that rests,
// and TCP_USER_TIMEOUT one that has something to say. New connections work.
func TestVanish(t *testing.T) {
	p := start(t, echo(t))
	resting, speaking := dial(t, p), dial(t, p)
	for _, c := range []*net.TCPConn{resting, speaking} {
		say(t, c, "hello")
		hear(t, c, "hello")
		if err := c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}); err != nil {
			t.Fatal(err)
		}
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 1500)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Vanish(); err != nil {
		t.Fatal(err)
	}
	say(t, speaking, "anybody there?")
	for _, c := range []*net.TCPConn{resting, speaking} {
		if err := c.SetDeadline(time.Now().Add(6 * patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes, %v, want what the kernel says of a peer that is gone", n, err)
		}
	}
	c := dial(t, p)
	say(t, c, "hello")
	hear(t, c, "hello")
}
