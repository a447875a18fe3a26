package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// What a service manager and this process tell each other: sockets it has opened
// (sd_listen_fds(3)), and how far the process is (sd_notify(3)).

// firstFD is SD_LISTEN_FDS_START.
const firstFD = 3

// inheritedFDs returns how many sockets were handed to this very process.
func inheritedFDs() int {
	pid, err := strconv.Atoi(os.Getenv("LISTEN_PID"))
	n, nerr := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if errors.Join(err, nerr) != nil || pid != os.Getpid() || n < 0 {
		return 0
	}
	return n
}

// inherit takes the sockets over.
func (s *settings) inherit() []net.Listener {
	var list []net.Listener
	for fd := firstFD; fd < firstFD+inheritedFDs(); fd++ {
		syscall.CloseOnExec(fd)
		file := os.NewFile(uintptr(fd), fmt.Sprintf("LISTEN_FD_%d", fd))
		l, err := net.FileListener(file) // a duplicate
		_ = file.Close()
		if err != nil {
			s.problems = append(s.problems, withHint(fmt.Errorf("LISTEN_FDS: descriptor %d: %w", fd, err),
				"The socket unit needs ListenStream= with a TCP address or a path, and Accept=no."))
			continue
		}
		list = append(list, l)
	}
	return list
}

// notify tells the service manager a state, if there is one that listens.
func (p *process) notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		p.log.Warn().Err(err).Msg("could not notify the service manager")
	}
}

// reloading is what Type=notify-reload wants to hear, with the monotonic clock.
func reloading() string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it has no way to fail
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}
