package main

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/testcert"
)

// A service manager opens the socket, hears that the process is ready, reloads a
// certificate, and hears that the process stops.
func TestServiceManager(t *testing.T) {
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	issue := func() (cert, key string) {
		pair, err := authority.Issue("localhost")
		if err == nil {
			cert, key, err = pair.Write(dir, "relay")
		}
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	cert, key := issue()
	path := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	hear := func(want string) {
		t.Helper()
		_ = manager.SetReadDeadline(time.Now().Add(waitLong))
		var b [256]byte
		n, err := manager.Read(b[:])
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Fatalf("heard %q, %v, want %q", b[:n], err, want)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	// LISTEN_PID is only known in the process itself: a shell sets it.
	cmd := commandLine(t.Context(), t, []string{"NOTIFY_SOCKET=" + path, "LISTEN_FDS=1"})
	self := cmd.Path
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, self, "relay",
		"--upstream", "host=127.0.0.1 port=1 user=x dbname=x", "--tls-cert", cert, "--tls-key", key}
	cmd.ExtraFiles = []*os.File{file}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hear("READY=1")
	serial := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	issue()
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	hear("RELOADING=1\nMONOTONIC_USEC=")
	hear("READY=1")
	if serial() == before {
		t.Error("after SIGHUP the certificate is the old one")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
	for _, want := range []string{listener.Addr().String(), `"certificate":true`} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, stderr.String())
		}
	}
}

// Everything that is wrong with addresses and certificates is said at once.
func TestBadListenersAndCertificates(t *testing.T) {
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	one, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	two, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := testcert.Pair{Cert: one.Cert, Key: two.Key}.Write(dir, "mixed")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	got := execute(t, nil, "", "relay", "--listen", taken.Addr().String(), "--listen", "/no/such/directory:6432",
		"--upstream", "host=x sslmode=perhaps", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key)
	if got.status != exitUsage {
		t.Errorf("exit status %d", got.status)
	}
	for _, want := range []string{
		taken.Addr().String() + ": bind: address already in use", "/no/such/directory:6432", "sslmode is invalid",
		"private key does not match public key", "no certificate in " + key,
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
		}
	}
}
