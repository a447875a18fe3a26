package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken from below the range that Linux gives to outgoing connections
// (net.ipv4.ip_local_port_range), so that none of those can take a port between
// its choice and its use, or while a server restarts.
const (
	firstPort = 20000
	lastPort  = 31999
)

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on, and that no
// other FreePort on this machine returns before release is called or this
// process ends. The reservation is a lock on a file named after the port.
func FreePort() (port int, release func(), err error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("slotferry-ports-%d", os.Geteuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, fmt.Errorf("reserve port: %w", err)
	}
	n := lastPort - firstPort + 1
	start := rand.IntN(n)
	for i := range n {
		port := firstPort + (start+i)%n
		lock, err := lockFile(filepath.Join(dir, strconv.Itoa(port)))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return 0, nil, fmt.Errorf("reserve port %d: %w", port, err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			lock.Close()
			continue
		}
		l.Close()
		return port, func() { lock.Close() }, nil
	}
	return 0, nil, fmt.Errorf("reserve port: none is free between %d and %d", firstPort, lastPort)
}
