package relay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ListenAddress reads a listen address: "host:port", or the directory of a Unix
// socket as libpq names it, "/dir" or "/dir:port". The port of a socket is a part
// of its name alone (UNIXSOCK_PATH, pqcomm.h), 5432 unless given.
func ListenAddress(text string) (network, address string, err error) {
	if !strings.HasPrefix(text, "/") {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return "", "", withHint(fmt.Errorf("%q is not an address", text),
				"Write it as host:port, for example 127.0.0.1:6432, or as a socket directory, /run/slotferry:6432.")
		}
		return "tcp", text, nil
	}
	dir, port := text, "5432"
	if i := strings.LastIndexByte(text, ':'); i > 0 {
		dir, port = text[:i], text[i+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", withHint(fmt.Errorf("%q is not an address: its port is no number", text),
			"Write it as /dir:port. A client names both: host=/dir port=6432.")
	}
	return "unix", filepath.Join(dir, ".s.PGSQL."+port), nil
}

// Listen opens a listen address. A Unix socket that a process left behind is
// replaced, and everybody may connect to the new one, as to PostgreSQL's: the
// upstream decides who gets in.
func Listen(text string) (net.Listener, error) {
	network, address, err := ListenAddress(text)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, address)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) && abandoned(address) {
		_ = os.Remove(address)
		l, err = net.Listen(network, address)
	}
	if err == nil && network == "unix" {
		err = os.Chmod(address, 0o777) // unix_socket_permissions
	}
	if err != nil {
		return nil, withHint(fmt.Errorf("listen on %s: %w", text, rootCause(err)),
			"Check that the address is this host's and that no other process listens there.")
	}
	return l, nil
}

// abandoned reports whether nobody listens on a socket.
func abandoned(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
