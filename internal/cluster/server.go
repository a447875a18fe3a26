package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
)

// Superuser is the role that initdb makes and that all connections here use.
const Superuser = "postgres"

// Host is the address that servers listen on.
const Host = "127.0.0.1"

// waitTimeout bounds every wait whose context has no earlier deadline.
const waitTimeout = time.Minute

// Server is one PostgreSQL server with its data directory, running or not. Its
// methods may be called from several goroutines, but those that start or end the
// server exclude each other.
type Server struct {
	name      string
	bin       pgbin.Installation
	own       owner
	dir       string // holds all below
	dataDir   string
	socketDir string
	logPath   string

	// lifecycle is held by whatever starts, ends, stops or continues the server.
	lifecycle sync.Mutex
	guard     *pauseGuard // nil unless paused
	lock      *os.File    // on a temporary dir, which Close removes; else nil

	mu          sync.Mutex // guards all below
	port        int
	releasePort func()
	settings    map[string]string
	process     *process // nil before the first start
}

// Start makes a primary and starts it. It returns when the server accepts
// connections.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Name == "" {
		cfg.Name = "primary"
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start server %q: %w", cfg.Name, err)
	}
	s, err := newServer(cfg.Name, cfg.Bin, cfg.Dir, cfg.Port)
	if err != nil {
		return nil, err
	}
	maps.Copy(s.settings, defaultSettings)
	maps.Copy(s.settings, cfg.Settings)
	if err := s.create(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) create(ctx context.Context, cfg Config) error {
	if err := newDataDir(ctx, cfg, s.own, s.dataDir); err != nil {
		return fmt.Errorf("make data directory of server %q: %w", s.name, err)
	}
	if err := s.include(); err != nil {
		return err
	}
	if err := s.writeHBA(cfg.HBA); err != nil {
		return err
	}
	return s.Start(ctx)
}

// newServer makes the directories of a server and reserves its port.
func newServer(name string, bin pgbin.Installation, dir string, port int) (*Server, error) {
	s := &Server{name: name, bin: bin, own: serverOwner(), port: port, settings: map[string]string{}}
	s.releasePort = func() {}
	var err error
	if s.dir, s.lock, err = makeDir(dir, name, s.own); err != nil {
		return nil, err
	}
	s.dataDir = filepath.Join(s.dir, "data")
	s.socketDir = filepath.Join(s.dir, "socket")
	s.logPath = filepath.Join(s.dir, "server.log")
	if n := len(filepath.Join(s.socketDir, ".s.PGSQL.65535.lock")); n > maxSocketPath {
		return nil, errors.Join(fmt.Errorf("make server %q: socket path has %d bytes, at most %d work "+
			"(hint: choose a shorter directory)", name, n, maxSocketPath), s.Close())
	}
	err = os.MkdirAll(s.socketDir, 0o700)
	if err == nil {
		err = s.own.chown(s.socketDir)
	}
	if err == nil && port == 0 {
		s.port, s.releasePort, err = FreePort()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make server %q: %w", name, err), s.Close())
	}
	return s, nil
}

// Start starts a server that does not run, and returns when it accepts
// connections, or, with hot_standby off, when recovery has begun.
func (s *Server) Start(ctx context.Context) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	return s.start(ctx)
}

func (s *Server) start(ctx context.Context) error {
	if s.Running() {
		return fmt.Errorf("start server %q: it runs already", s.name)
	}
	if err := s.writeSettings(); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start server %q: %w", s.name, err)
	}
	defer log.Close()
	mark := s.LogSize()

	cmd := exec.Command(s.bin.Program("postgres"), "-D", s.dataDir)
	s.own.prepare(cmd)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startProcess(cmd)
	if err != nil {
		return s.own.explain(fmt.Errorf("start server %q: %w", s.name, err))
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()

	err = poll.Until(ctx, waitTimeout, fmt.Sprintf("server %q to accept connections", s.name),
		func(context.Context) (bool, string) {
			status := s.status(p.pid)
			return status == "ready" || status == "standby" || !p.running(), "postmaster is " + status
		})
	if !p.running() {
		err = fmt.Errorf("start server %q: postmaster ended: %w", s.name, errors.Join(p.err, err))
	}
	if err != nil {
		return fmt.Errorf("%w, its log says:\n%s", err, tail(s.logFrom(mark), 20))
	}
	return nil
}

// status is what the postmaster last wrote into postmaster.pid (pidfile.h,
// LOCK_FILE_LINE_PM_STATUS): starting, stopping, ready or standby.
func (s *Server) status(pid int) string {
	text, err := os.ReadFile(filepath.Join(s.dataDir, "postmaster.pid"))
	if err != nil {
		return "without postmaster.pid"
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 8 || lines[0] != strconv.Itoa(pid) {
		return "without status"
	}
	return strings.TrimSpace(lines[7])
}

// Restart stops the server, if it runs, and starts it.
func (s *Server) Restart(ctx context.Context, mode StopMode) error {
	if s.Running() {
		if err := s.Stop(ctx, mode); err != nil {
			return err
		}
	}
	return s.Start(ctx)
}

// Running reports whether the postmaster runs. A paused server does.
func (s *Server) Running() bool {
	p := s.postmaster()
	return p != nil && p.running()
}

func (s *Server) postmaster() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Name returns the name that the server was given.
func (s *Server) Name() string { return s.name }

// Major returns the major version.
func (s *Server) Major() int { return s.bin.Major }

// Bin returns the programs that the server was started from.
func (s *Server) Bin() pgbin.Installation { return s.bin }

// Port returns the TCP port. It stays the same over restarts.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// PID returns the process id of the postmaster of the last start, or 0.
func (s *Server) PID() int {
	if p := s.postmaster(); p != nil {
		return p.pid
	}
	return 0
}

// DataDir returns the data directory.
func (s *Server) DataDir() string { return s.dataDir }
