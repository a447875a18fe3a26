package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
)

// TestDryRunBesideTheProcess has all addresses taken, as the process with the same
// settings takes them, and nobody to ask: it waits for slot state, and says that
// nobody was reached. It leaves nothing behind.
func TestDryRunBesideTheProcess(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, command := range []string{"helper", "solo"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state")
			path := configFile(t, 0o600, "listen: "+taken.Addr().String(), "http: "+taken.Addr().String(),
				"upstream: "+conninfoOf(t, freeAddr(t)), "standby: "+conninfoOf(t, freeAddr(t)), "state-dir: "+state)
			got := execute(t, nil, "", command, "--dry-run", "--config", path)
			if got.status != exitUnreachable || !strings.Contains(got.stderr, "Nothing was done") {
				t.Errorf("status %d, %s%s", got.status, got.stdout, got.stderr)
			}
			if _, err := os.Stat(state); !os.IsNotExist(err) {
				t.Errorf("the state directory: %v", err)
			}
		})
	}
}

// TestDropAllReachesNobody: status 2 is for a standby that is away.
func TestDropAllReachesNobody(t *testing.T) {
	t.Parallel()
	got := execute(t, nil, "", "helper", "--drop-all", "--standby", conninfoOf(t, freeAddr(t)), "--state-dir", t.TempDir())
	if got.status != exitUnreachable || !strings.Contains(got.stderr, decoder.ReasonStandbyUnreachable.Hint()) {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}
