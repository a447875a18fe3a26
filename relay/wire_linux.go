package relay

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// tcpUserTimeout is TCP_USER_TIMEOUT (linux/tcp.h), which package syscall
// lacks.
const tcpUserTimeout = 0x12

// rawConn returns the connection for system calls of our own. A net.Conn
// announces each of its calls to the scheduler, whose monitor thread it wakes;
// on sparse traffic that is more than half of a relay's CPU time. These file
// descriptors never block, so nothing has to be announced.
func rawConn(c syscall.Conn) syscall.RawConn {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// rawReading is one read that may have to wait. Its fields stand in for a
// closure, which would be allocated for every read.
type rawReading struct {
	call  func(fd uintptr) (done bool) // try
	in    *inbox
	wait  bool
	n     int
	errno syscall.Errno
}

// try reads once; false asks to be called again when there is something.
func (r *rawReading) try(fd uintptr) (done bool) {
	for {
		room := r.in.room()
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)))
		switch e {
		case 0:
			r.n, r.errno = int(n), 0
			return true
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			r.errno = e
			r.in.rest() // no buffer while nothing is there
			return !r.wait
		default:
			r.errno = e
			return true
		}
	}
}

func (w *wire) rawRead(in *inbox, wait bool) error {
	r := &w.reading
	r.in, r.wait, r.n, r.errno = in, wait, 0, 0
	err := w.raw.Read(r.call)
	if err == nil && r.n > 0 {
		in.n += r.n
		return nil
	}
	in.rest()
	switch {
	case err != nil:
		return err
	case r.errno == syscall.EAGAIN:
		return errNoBytes
	case r.errno != 0:
		return os.NewSyscallError("read", r.errno)
	default:
		return io.EOF
	}
}

// rawWriting is one write that may have to wait.
type rawWriting struct {
	call  func(fd uintptr) (done bool) // try
	b     []byte
	more  bool // see goesOn
	errno syscall.Errno
}

// try writes what it can; false asks to be called again when there is room.
func (w *rawWriting) try(fd uintptr) (done bool) {
	flags := uintptr(syscall.MSG_NOSIGNAL)
	if w.more {
		flags |= syscall.MSG_MORE
	}
	for len(w.b) > 0 {
		n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&w.b[0])), uintptr(len(w.b)), flags, 0, 0)
		switch e {
		case 0:
			w.b = w.b[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			w.errno = e
			return true
		}
	}
	return true
}

func (w *wire) rawWrite(b []byte) error {
	r := &w.writing
	r.b, r.errno = b, 0
	err := w.raw.Write(r.call)
	r.b, r.more = nil, false
	switch {
	case err != nil:
		return err
	case r.errno != 0:
		return os.NewSyscallError("send", r.errno)
	default:
		return nil
	}
}

func setUserTimeout(c *net.TCPConn, d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}
