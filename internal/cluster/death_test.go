package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// The test below runs this test binary again, as a process that starts a server
// and is then killed. These tell that process what to do.
const (
	childDir   = "SLOTFERRY_TEST_CHILD_DIR"
	childPause = "SLOTFERRY_TEST_CHILD_PAUSE"
)

// TestServersDieWithTheirProcess kills a process that has started a server, which
// leaves it no chance to clean up.
func TestServersDieWithTheirProcess(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		startAndHang(t, dir)
		return
	}
	for _, pause := range []string{"", "paused"} {
		t.Run("server "+pause, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "slotferry-death-")
			must(t, err)
			defer os.RemoveAll(dir)
			must(t, os.Chmod(dir, 0o755)) // the server's user goes through it

			cmd := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheirProcess$")
			cmd.Env = append(os.Environ(), childDir+"="+filepath.Join(dir, "server"), childPause+"="+pause)
			out, err := cmd.StdoutPipe()
			must(t, err)
			in, err := cmd.StdinPipe()
			must(t, err)
			defer in.Close()
			must(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("read from child: %v, %q", err, line)
			}
			pids := strings.Fields(line)
			if len(pids) < 3 {
				t.Fatalf("the child says %q, want the pids of a server", line)
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait()
			poll.Require(t, time.Minute, "the server to die", func(context.Context) (bool, string) {
				for _, pid := range pids {
					if alive(pid) {
						return false, "process " + pid + " lives"
					}
				}
				return true, ""
			})
		})
	}
}

// startAndHang starts a server, prints the pids of its processes, and waits to be
// killed.
func startAndHang(t *testing.T, dir string) {
	s := clustertest.Primary(t, 17, cluster.Config{Dir: dir})
	backends := clustertest.Value[string](t, s, "postgres",
		"SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	if os.Getenv(childPause) != "" {
		must(t, s.Pause(t.Context()))
	}
	fmt.Println(s.PID(), backends)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func alive(pid string) bool {
	id, err := strconv.Atoi(pid)
	if err != nil || syscall.Kill(id, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
