package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
)

// Bounds of a process's life.
const (
	startTimeout = time.Minute
	stopTimeout  = 15 * time.Second
)

// Build compiles the slotferry binary into dir and returns its path. race adds
// the race detector, which ends a process that has a race with status 66. flags
// are more flags of "go build".
func Build(ctx context.Context, dir string, race bool, flags ...string) (string, error) {
	path := filepath.Join(dir, "slotferry")
	args := append([]string{"build", "-o", path}, flags...)
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/slotferry/slotferry/cmd/slotferry")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build slotferry: %w\n%s", err, out)
	}
	return path, nil
}

// Process is one slotferry process. It can be killed and started again with the
// same arguments; its log goes on in the same file.
type Process struct {
	name   string
	binary string
	args   []string
	url    string
	log    string               // path
	attr   *syscall.SysProcAttr // of the operating system's process; nil: as this one

	mu   sync.Mutex // Kill9 and Stop may come from another goroutine than Start
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of the last life, after done
}

// newProcess names a process; url is where its --http serves.
func newProcess(name, binary, dir, url string, args ...string) *Process {
	return &Process{name: name, binary: binary, args: args, url: url, log: filepath.Join(dir, name+".log")}
}

// Start starts the process and waits until it answers on its URL.
func (p *Process) Start(ctx context.Context) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, p.attr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
	return poll.Until(ctx, startTimeout, p.name+" to answer", func(ctx context.Context) (bool, string) {
		select {
		case <-done:
			return true, ""
		default:
		}
		_, err := p.Document(ctx)
		return err == nil, fmt.Sprint(err)
	})
}

// Running reports whether the process lives.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill9 kills the process as a crash would.
func (p *Process) Kill9() error { return p.end(syscall.SIGKILL) }

// Stop ends the process in order, and reports a status other than 0.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(sig syscall.Signal) error {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		_ = cmd.Process.Kill() // it has had its time
		<-done
		return fmt.Errorf("end %s: it did not end within %s of %v", p.name, stopTimeout, sig)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig == syscall.SIGTERM && p.err != nil {
		return fmt.Errorf("end %s: %w", p.name, p.err)
	}
	return nil
}

// Pause stops the process by SIGSTOP, as a machine that hangs.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("send %v to %s: it was never started", sig, p.name)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, p.name, err)
	}
	return nil
}

// PID is the process id of the last start, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Document is the process's /status. Only what the tests and the demo look at is
// decoded strictly by them; here it is raw.
func (p *Process) Document(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read status of %s: %w", p.name, err)
	}
	defer resp.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		return nil, fmt.Errorf("read status of %s: %w", p.name, err)
	}
	return raw, nil
}

// Log is what the process has written so far.
func (p *Process) Log() string {
	raw, _ := os.ReadFile(p.log) // no log yet is an empty one
	return string(raw)
}

// URL is where the process serves its status.
func (p *Process) URL() string { return p.url }
