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

func (w *wire) rawRead(in *inbox, wait bool) error {
	var n int
	var errno syscall.Errno
	err := w.raw.Read(func(fd uintptr) bool {
		for {
			room := in.room()
			r, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)))
			switch e {
			case 0:
				n, errno = int(r), 0
				return true
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				errno = e
				in.rest() // no buffer while nothing is there
				return !wait
			default:
				errno = e
				return true
			}
		}
	})
	if err == nil && n > 0 {
		in.n += n
		return nil
	}
	in.rest()
	switch {
	case err != nil:
		return err
	case errno == syscall.EAGAIN:
		return errNoBytes
	case errno != 0:
		return os.NewSyscallError("read", errno)
	default:
		return io.EOF
	}
}

func (w *wire) rawWrite(b []byte) error {
	var errno syscall.Errno
	err := w.raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			r, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
			switch e {
			case 0:
				b = b[r:]
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			default:
				errno = e
				return true
			}
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case errno != 0:
		return os.NewSyscallError("write", errno)
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
