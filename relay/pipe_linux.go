package relay

import (
	"io"
	"os"
	"syscall"
)

// Flags of splice(2) (linux/splice.h), which package syscall lacks.
const (
	spliceMove     = 0x1
	spliceNonblock = 0x2
)

// pipe carries bytes from one socket to another without bringing them into this
// process: splice(2), which has nothing to do with splicing slot messages, moves
// references to pages. It is opened when it is first needed. Its owner is one
// pump, which empties it before it fills it again, so that it never holds more
// than one fill.
type pipe struct {
	r, w    int
	opened  bool
	refused bool // splice(2) does not work here: not to be tried again
	filling pipeFilling
	pouring pipePouring
}

// open makes the pipe, and reports whether there is one.
func (p *pipe) open() bool {
	if p.opened || p.refused {
		return p.opened
	}
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		p.refused = true // no descriptors left
		return false
	}
	p.r, p.w, p.opened = fds[0], fds[1], true
	// A slot holds one page fragment, which on a network is one packet's worth. A
	// user with many pipes may not enlarge them; the default does too.
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p.w), syscall.F_SETPIPE_SZ, pipeSize)
	p.filling.call, p.pouring.call = p.filling.try, p.pouring.try
	return true
}

func (p *pipe) close() {
	if p.opened {
		_, _ = syscall.Close(p.r), syscall.Close(p.w)
		p.opened = false
	}
}

// pipeFilling is one splice(2) from a socket, as rawReading is one read.
type pipeFilling struct {
	call  func(fd uintptr) (done bool) // try
	to    int
	most  int
	n     int
	errno syscall.Errno
}

func (f *pipeFilling) try(fd uintptr) (done bool) {
	for {
		f.n, f.errno = move(int(fd), f.to, f.most)
		switch f.errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		return true
	}
}

// fill waits for bytes and takes at most n of them. It is errNoPipe, with nothing
// taken, where splice(2) does not work; else its errors are read's.
func (p *pipe) fill(from *wire, n int) (int, error) {
	f := &p.filling
	f.to, f.most, f.n, f.errno = p.w, min(n, bufferSize), 0, 0
	err := from.raw.Read(f.call)
	switch {
	case err != nil:
		return 0, err
	case f.errno == syscall.EINVAL, f.errno == syscall.ENOSYS, f.errno == syscall.EPERM:
		p.refused = true
		return 0, errNoPipe
	case f.errno != 0:
		return 0, os.NewSyscallError("splice", f.errno)
	case f.n == 0:
		return 0, io.EOF
	}
	return f.n, nil
}

// pipePouring is the way from the pipe to a socket, as rawWriting is a write.
type pipePouring struct {
	call  func(fd uintptr) (done bool) // try
	from  int
	left  int
	errno syscall.Errno
}

func (f *pipePouring) try(fd uintptr) (done bool) {
	for f.left > 0 {
		n, e := move(f.from, int(fd), f.left)
		switch e {
		case 0:
			f.left -= n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			f.errno = e
			return true
		}
	}
	return true
}

// pour writes the n bytes that the last fill took.
func (p *pipe) pour(to *wire, n int) error {
	f := &p.pouring
	f.from, f.left, f.errno = p.r, n, 0
	if err := to.raw.Write(f.call); err != nil {
		return err
	}
	if f.errno != 0 {
		return os.NewSyscallError("splice", f.errno)
	}
	return nil
}

// move moves up to n bytes between a pipe and a socket, neither of which
// blocks.
func move(from, to, n int) (int, syscall.Errno) {
	got, _, e := syscall.RawSyscall6(syscall.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), spliceMove|spliceNonblock)
	if e != 0 {
		return 0, e
	}
	return int(got), 0
}
