package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/slotferry/slotferry/internal/poll"
)

// procStat is what /proc says about a process. PIDs are used again, so a process
// is told by its start time as well.
type procStat struct {
	pid, ppid int
	state     byte   // R, S, D, T, Z, ...
	started   uint64 // in clock ticks since boot
}

// dead reports whether the process is gone or only waits to be reaped, which in
// a container may never happen.
func (s procStat) dead() bool {
	now, err := readStat(s.pid)
	return err != nil || now.started != s.started || now.state == 'Z' || now.state == 'X'
}

// stopped reports whether the process has been stopped by a signal, or is dead.
func (s procStat) stopped() bool {
	now, err := readStat(s.pid)
	return err != nil || now.started != s.started || now.state == 'T' || now.state == 'Z' || now.state == 'X'
}

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	// The name of the program, in parentheses, may hold spaces and parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return procStat{}, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	ppid, errPPID := strconv.Atoi(string(fields[1]))
	started, errStarted := strconv.ParseUint(string(fields[19]), 10, 64)
	return procStat{pid: pid, ppid: ppid, state: fields[0][0], started: started}, errors.Join(errPPID, errStarted)
}

// descendants returns all processes below pid. Backends leave the postmaster's
// process group, so the tree is the only way to find them.
func descendants(pid int) ([]procStat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]procStat{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// An error means that the process has just ended.
		if s, err := readStat(id); err == nil {
			children[s.ppid] = append(children[s.ppid], s)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}

// stopTree stops the postmaster, so that it forks no more, and then all its
// children. It returns the whole tree, the postmaster first.
func stopTree(ctx context.Context, pid int) ([]procStat, error) {
	root, err := readStat(pid)
	if err != nil {
		return nil, fmt.Errorf("stop postmaster: %w", err)
	}
	tree := []procStat{root}
	if err := stopAll(ctx, tree); err != nil {
		return nil, err
	}
	children, err := descendants(pid)
	if err != nil {
		return nil, err
	}
	return append(tree, children...), stopAll(ctx, children)
}

func stopAll(ctx context.Context, procs []procStat) error {
	if err := signalAll(procs, syscall.SIGSTOP); err != nil {
		return err
	}
	return poll.Until(ctx, waitTimeout, "processes to stop", func(context.Context) (bool, string) {
		for _, p := range procs {
			if !p.stopped() {
				return false, fmt.Sprintf("process %d runs", p.pid)
			}
		}
		return true, ""
	})
}

func signalAll(procs []procStat, sig syscall.Signal) error {
	for _, p := range procs {
		if p.dead() {
			continue
		}
		if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %s to process %d: %w", sig, p.pid, err)
		}
	}
	return nil
}
