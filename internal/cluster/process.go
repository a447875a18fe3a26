package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running postmaster.
type process struct {
	pid  int
	done chan struct{} // closed when the postmaster has ended
	err  error         // how it ended; valid once done is closed
}

// startProcess forks a postmaster. The goroutine that forks it owns its thread
// until the postmaster has ended, since the end of the forking thread would
// raise the parent-death signal.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go p.supervise(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) supervise(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	p.err = cmd.Wait()
	close(p.done)
}

// running reports whether the postmaster has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(sig syscall.Signal) error {
	if !p.running() {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to postmaster %d: %w", sig, p.pid, err)
	}
	return nil
}
