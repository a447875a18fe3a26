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
	childMode  = "SLOTFERRY_TEST_CHILD"
	childRuns  = "running"
	childPause = "paused"
)

// TestServersDieWithTheirProcess kills a process that has started a server, which
// leaves it no chance to clean up. The server must die, and its directory must go
// when the next server is started.
func TestServersDieWithTheirProcess(t *testing.T) {
	if mode := os.Getenv(childMode); mode != "" {
		startAndHang(t, mode)
		return
	}
	for _, mode := range []string{childRuns, childPause} {
		t.Run(mode, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheirProcess$")
			cmd.Env = append(os.Environ(), childMode+"="+mode)
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
			dir, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			pids := strings.Fields(rest)
			if len(pids) < 3 {
				t.Fatalf("the child says %q, want a directory and the pids of a server", line)
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
			clustertest.Primary(t, 17, cluster.Config{})
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the directory of the dead server: %v, want it removed", err)
			}
		})
	}
}

// startAndHang starts a server, prints its data directory and the pids of its
// processes, and waits to be killed.
func startAndHang(t *testing.T, mode string) {
	s := clustertest.Primary(t, 17, cluster.Config{})
	backends := clustertest.Value[string](t, s, "postgres",
		"SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	if mode == childPause {
		must(t, s.Pause(t.Context()))
	}
	fmt.Println(s.DataDir(), s.PID(), backends)
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
