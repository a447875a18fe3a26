package relay

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the peer is known to have ended the connection, though what
// it sent before may not be read yet. A FIN behind more than fits is not known: the
// keepalive probes find that out when the peer's kernel has given up on it.
func (w *wire) hungUp() bool {
	conn := w.conn
	if w.tls != nil {
		conn = w.sock.base.conn
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var gone bool
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, _ := unix.Poll(poll, 0) // interrupted: at the next look
		gone = n > 0
	})
	return err == nil && gone
}
