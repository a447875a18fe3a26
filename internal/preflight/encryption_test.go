package preflight

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEncryptionOf(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	address := server.Listener.Addr().String()
	encrypted, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Close()
	if e := encryptionOf(encrypted); !strings.HasPrefix(e.TLS, "TLS 1.") || !e.Local || e.plain() || e.String() != e.TLS {
		t.Errorf("TLS: %+v", e)
	}
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if e := encryptionOf(plain); e.TLS != "" || !e.Local || e.plain() {
		t.Errorf("plain text on loopback: %+v", e)
	}
}

func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"": true, "@": true, "/run/postgresql/.s.PGSQL.5432": true, "127.0.0.1:5432": true, "127.1.2.3": true, "[::1]:5432": true, "::1": true,
		"[::ffff:127.0.0.1]:1": true, "localhost:1": true,
		"10.0.0.1:5432": false, "[fe80::1%eth0]:1": false, "db1:5432": false, "0.0.0.0": false, "localhost.example:1": false,
	} {
		if got := isLocal(address); got != want {
			t.Errorf("isLocal(%q) = %v", address, got)
		}
	}
}
