package cluster

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// pauseGuard is a shell that kills a paused server when this process dies.
// Stopped processes cannot notice that themselves: only the postmaster gets the
// parent-death signal, and its children, waiting for SIGCONT, would stay for ever.
// The guard reads from a pipe that only this process can write to; end of file
// means that this process is gone.
type pauseGuard struct {
	procs []procStat
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

const guardScript = `read -r line || kill -KILL "$@"`

func startGuard(procs []procStat) (*pauseGuard, error) {
	args := []string{"-c", guardScript, "pause-guard"}
	for _, p := range procs {
		args = append(args, strconv.Itoa(p.pid))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of reach of the terminal's Ctrl-C
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &pauseGuard{procs: procs, cmd: cmd, stdin: stdin}, nil
}

// release ends the guard without a kill.
func (g *pauseGuard) release() error {
	if _, err := io.WriteString(g.stdin, "\n"); err != nil {
		return err
	}
	return g.cmd.Wait()
}

// Pause stops all processes of the server by SIGSTOP, as a machine that hangs: its
// connections stay open and nothing answers on them.
func (s *Server) Pause(ctx context.Context) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	p := s.postmaster()
	switch {
	case p == nil || !p.running():
		return fmt.Errorf("pause server %q: it does not run", s.name)
	case s.guard != nil:
		return fmt.Errorf("pause server %q: it is paused already", s.name)
	}
	tree, err := stopTree(ctx, p.pid)
	if err == nil {
		s.guard, err = startGuard(tree)
	}
	if err != nil {
		_ = signalAll(tree, syscall.SIGCONT)
		return fmt.Errorf("pause server %q: %w", s.name, err)
	}
	return nil
}

// Resume lets a paused server go on.
func (s *Server) Resume() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.guard == nil {
		return fmt.Errorf("resume server %q: it is not paused", s.name)
	}
	procs := s.guard.procs
	if err := s.endPause(); err != nil {
		return err
	}
	if err := signalAll(procs, syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume server %q: %w", s.name, err)
	}
	return nil
}

// endPause releases the guard, if there is one.
func (s *Server) endPause() error {
	if s.guard == nil {
		return nil
	}
	err := s.guard.release()
	s.guard = nil
	if err != nil {
		return fmt.Errorf("end guard of paused server %q: %w", s.name, err)
	}
	return nil
}
