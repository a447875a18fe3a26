package main

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/testcert"
)

// TestCaptureReadsInsideTLS records sessions that are encrypted up to the proxy and,
// anew, from there to the server.
func TestCaptureReadsInsideTLS(t *testing.T) {
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(t.TempDir(), "proxy")
	if err != nil {
		t.Fatal(err)
	}
	r := record(t, slices.Max(clustertest.Majors(t)), "--tls-cert", cert, "--tls-key", key)
	for name, text := range map[string]string{"server.crt": pair.Cert, "server.key": pair.Key} {
		if err := r.primary.WriteDataFile(name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.primary.SetConf(t.Context(), "ssl", "on"); err != nil {
		t.Fatal(err)
	}
	for _, negotiation := range []string{"postgres", "direct"} {
		conn, err := pgconn.Connect(t.Context(), conninfoOf(t, r.addr)+" sslmode=require sslnegotiation="+negotiation+" replication=true")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "IDENTIFY_SYSTEM").ReadAll(); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close(t.Context())
		conn, err = pgconn.Connect(t.Context(), conninfoOf(t, r.addr)+" sslmode=require sslnegotiation="+negotiation)
		if err != nil {
			t.Fatal(err)
		}
		result, err := conn.Exec(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").ReadAll()
		if err != nil || string(result[0].Rows[0][0]) != "t" {
			t.Errorf("the server says of TLS: %v, %v", result, err)
		}
		_ = conn.Close(t.Context())
	}
	stopsCleanly(t, r.proxy)
	commands, hellos := 0, 0
	for _, l := range inspectJSON(t, 0, r.file) {
		if l.Message == "Encrypted" {
			hellos++
		}
		if l.Fields["query"] == "IDENTIFY_SYSTEM" {
			commands++
		}
	}
	if commands != 2 || hellos > 2 { // the ClientHellos of the direct ones
		t.Errorf("%d commands and %d runs of encrypted bytes were recorded, want 2 and 2", commands, hellos)
	}
	balanced(t, r.file)
}
