package clustertest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
)

// oldestClient is the oldest major of which client programs can be fetched. They
// work with older servers too.
const oldestClient = 17

// ClientTools returns client programs that work with servers of a major version:
// its own, or those of a newer major.
func ClientTools(t testing.TB, major int) pgbin.Installation {
	t.Helper()
	cfg := pgbin.Config{BinDirs: os.Getenv("SLOTFERRY_PG_BINDIRS")}
	tools, err := pgbin.ClientTools(t.Context(), max(major, oldestClient), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// Command returns a command that runs a client program, such as pg_receivewal,
// which fits the server, with an environment that is always the same. The command
// ends with ctx. The connection is the caller's to name in args.
func Command(ctx context.Context, t testing.TB, s *cluster.Server, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, ClientTools(t, s.Major()).Program(program), args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	return cmd
}

// Run runs a client program to its end, ends the test if it fails, and returns
// what it wrote to stdout.
func Run(t testing.TB, s *cluster.Server, program string, args ...string) string {
	t.Helper()
	cmd := Command(t.Context(), t, s, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}
