package relay

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenAddress(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:6432": "tcp 127.0.0.1:6432", ":6432": "tcp :6432", "[::1]:6432": "tcp [::1]:6432",
		"/run/x": "unix /run/x/.s.PGSQL.5432", "/run/x:6432": "unix /run/x/.s.PGSQL.6432", "/run/x/:1": "unix /run/x/.s.PGSQL.1",
	} {
		if network, address, err := ListenAddress(text); err != nil || network+" "+address != want {
			t.Errorf("%s: %s %s, %v, want %s", text, network, address, err, want)
		}
	}
	for _, text := range []string{"", "6432", "/run/x:", "/run/x:port", "/run/x:0", "/run/x:65536"} {
		if _, _, err := ListenAddress(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// Both legs over Unix sockets, with a socket in the way that a crash left. The
// socket goes with the relay.
func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".s.PGSQL.6432")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()

	upstream := t.TempDir()
	server, err := net.Listen("unix", filepath.Join(upstream, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := newScripted(t, Config{Mode: ModeSplice, Listen: []string{dir + ":6432", "127.0.0.1:0"}, Upstream: "host=" + upstream})
	if list := s.relay.Addrs(); len(list) != 2 || list[0].String() != path {
		t.Fatalf("listens on %v", list)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	for _, addr := range s.relay.Addrs() {
		conn, err := net.Dial(addr.Network(), addr.String())
		if err != nil {
			t.Fatal(err)
		}
		downstream := &peer{t, conn}
		downstream.send(startup("user", "a"))
		accepted, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		up := &peer{t, accepted}
		up.expect(startup("user", "a"))
		up.send(loginAnswer)
		downstream.expect(loginAnswer)
		_ = conn.Close()
		up.ended()
		_ = accepted.Close()
	}
	if _, err := Listen(dir + ":6432"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a socket that is in use: %v", err)
	}
	s.stop()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}
