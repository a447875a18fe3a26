package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/slotferry/slotferry/internal/poll"
)

// StopMode is one of the postmaster's shutdown modes.
type StopMode string

// The shutdown modes of pg_ctl.
const (
	Smart     StopMode = "smart"     // wait for all clients to go
	Fast      StopMode = "fast"      // end sessions, write a checkpoint, send all WAL to standbys
	Immediate StopMode = "immediate" // end at once, recover at the next start
)

var stopSignals = map[StopMode]syscall.Signal{
	Smart:     syscall.SIGTERM,
	Fast:      syscall.SIGINT,
	Immediate: syscall.SIGQUIT,
}

// Stop shuts the server down and returns when it has ended. When the wait ends
// first the shutdown goes on.
func (s *Server) Stop(ctx context.Context, mode StopMode) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	p := s.postmaster()
	switch {
	case p == nil || !p.running():
		return fmt.Errorf("stop server %q: it does not run", s.name)
	case s.guard != nil:
		return fmt.Errorf("stop server %q: it is paused", s.name)
	case stopSignals[mode] == 0:
		return fmt.Errorf("stop server %q: no mode %q", s.name, mode)
	}
	mark := s.LogSize()
	if err := p.signal(stopSignals[mode]); err != nil && p.running() {
		return fmt.Errorf("stop server %q: %w", s.name, err)
	}
	err := poll.Until(ctx, waitTimeout, fmt.Sprintf("%s shutdown of server %q", mode, s.name),
		func(context.Context) (bool, string) { return !p.running(), "it runs" })
	if err != nil {
		return fmt.Errorf("%w, its log says:\n%s", err, tail(s.logFrom(mark), 20))
	}
	return nil
}

// Kill9 ends the server as a crash of its machine does: the postmaster and all of
// its children get SIGKILL, with no moment in which one of them could act on the
// end of another. It returns when all are gone. A server that does not run is left
// alone.
func (s *Server) Kill9() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	return s.kill9()
}

func (s *Server) kill9() error {
	p := s.postmaster()
	if p == nil || !p.running() {
		return nil
	}
	ctx := context.Background()
	tree, err := stopTree(ctx, p.pid)
	if err != nil {
		// Better a crash with a moment in it than a server that stays.
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("kill server %q: %w", s.name, err)
	}
	if err := signalAll(tree, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill server %q: %w", s.name, err)
	}
	err = poll.Until(ctx, waitTimeout, fmt.Sprintf("processes of server %q to die", s.name),
		func(context.Context) (bool, string) {
			for _, process := range tree[1:] {
				if !process.dead() {
					return false, fmt.Sprintf("process %d lives", process.pid)
				}
			}
			return !p.running(), "postmaster lives"
		})
	return errors.Join(err, s.endPause())
}

// Close kills the server and gives back what it holds: its port, its System V
// shared memory, and its directory if that was a temporary one. Closing twice is
// fine.
func (s *Server) Close() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	err := s.kill9()
	removeSharedMemory(s.dataDir)
	if s.lock != nil {
		err = errors.Join(err, os.RemoveAll(s.dir))
		s.lock.Close()
		s.lock = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releasePort()
	s.releasePort = func() {}
	if err != nil {
		return fmt.Errorf("close server %q: %w", s.name, err)
	}
	return nil
}

// ipcRemove is IPC_RMID (ipc.h).
const ipcRemove = 0

// removeSharedMemory removes the small System V segment by which a postmaster
// locks its data directory. A killed postmaster leaves it behind, for its next
// start to clean up; there will be none, and the system has only 4096 of them.
func removeSharedMemory(dataDir string) {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return // a clean shutdown has removed it
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	// Line 7 is "key id" (pidfile.h, LOCK_FILE_LINE_SHMEM_KEY).
	if fields := strings.Fields(lines[6]); len(fields) == 2 {
		if id, err := strconv.Atoi(fields[1]); err == nil {
			_, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), ipcRemove, 0)
		}
	}
}
