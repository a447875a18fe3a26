package faultproxy

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Vanish makes both peers of all connections disappear for each other without a
// word, as when a machine loses its power or a firewall forgets what it knew: from
// now on the kernel throws away every packet that arrives at the proxy's end of
// these connections, so that none is acknowledged, and neither keepalive probes nor
// a FIN are answered. Connections to come are not touched. Cut and Close end what
// is left.
func (p *Proxy) Vanish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for c := range p.conns {
		errs = append(errs, dropAll(c))
	}
	return errors.Join(errs...)
}

// dropAll attaches a filter that lets no packet through to a socket (socket(7),
// SO_ATTACH_FILTER): unlike a firewall rule it needs no privilege.
func dropAll(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("drop packets of a %T", c)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("drop packets: %w", err)
	}
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	var filterErr error
	err = raw.Control(func(fd uintptr) {
		filterErr = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &nothing})
	})
	if err = errors.Join(err, filterErr); err != nil {
		return fmt.Errorf("drop packets: %w", err)
	}
	return nil
}
