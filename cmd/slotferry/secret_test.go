package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// testSecret is the password of every command that a test runs, and of no server:
// those ask for none, or for another one. noSecret looks for it in all that the
// commands show.
const testSecret = "Geheim-0815-nirgends"

// noSecret checks that a text does not show the password, whole or in part.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	if strings.Contains(text, testSecret[:11]) {
		t.Errorf("%s shows the password:\n%s", where, text)
	}
}

// showsNoSecret asks a process that still runs for all it tells.
func (d *daemon) showsNoSecret(t *testing.T) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/", "/status", "/readyz", "/metrics"} {
		resp, err := client.Get("http://" + d.http + path)
		if err != nil {
			return // it has ended
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			noSecret(t, path+" of slotferry", string(body))
		}
	}
}
