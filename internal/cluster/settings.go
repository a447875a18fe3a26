package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
)

// settingsFile is included at the end of postgresql.conf and written anew with
// every change. ALTER SYSTEM still overrides it.
const settingsFile = "cluster.conf"

// include adds the settings file to postgresql.conf.
func (s *Server) include() error {
	path := filepath.Join(s.dataDir, "postgresql.conf")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("include settings: %w", err)
	}
	_, err = fmt.Fprintf(f, "include '%s'\n", settingsFile)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("include settings: %w", err)
	}
	return nil
}

func (s *Server) writeSettings() error {
	s.mu.Lock()
	all := maps.Clone(s.settings)
	all["port"] = strconv.Itoa(s.port)
	s.mu.Unlock()
	all["unix_socket_directories"] = s.socketDir
	var b strings.Builder
	quote := strings.NewReplacer(`'`, `''`, `\`, `\\`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, quote.Replace(all[name]))
	}
	return s.writeDataFile(settingsFile, b.String())
}

func (s *Server) writeHBA(lines []string) error {
	if len(lines) == 0 {
		lines = defaultHBA
	}
	return s.writeDataFile("pg_hba.conf", strings.Join(slices.Concat(socketHBA, lines), "\n")+"\n")
}

// WriteDataFile writes a file into the data directory, such as one that a setting
// names, and gives it to the server's user, who alone can read it.
func (s *Server) WriteDataFile(name, text string) error { return s.writeDataFile(name, text) }

// writeDataFile writes a file in the data directory in one step, and gives it to
// the server's user.
func (s *Server) writeDataFile(name, text string) error {
	path := filepath.Join(s.dataDir, name)
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = s.own.chown(path + ".new")
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write %s of server %q: %w", name, s.name, err)
	}
	return nil
}

// SetConf changes a setting in the configuration file. A running server reloads
// it; what can change only at server start changes at the next start.
func (s *Server) SetConf(ctx context.Context, name, value string) error {
	return s.SetConfs(ctx, map[string]string{name: value})
}

// SetConfs is SetConf for several settings at once.
func (s *Server) SetConfs(ctx context.Context, settings map[string]string) error {
	s.mu.Lock()
	maps.Copy(s.settings, settings)
	s.mu.Unlock()
	if err := s.writeSettings(); err != nil {
		return err
	}
	if !s.Running() {
		return nil
	}
	if err := s.Reload(ctx); err != nil {
		return err
	}
	// The view also lists settings that wait for a restart, as not applied.
	faults, err := QueryColumn[string](ctx, s, "postgres", `SELECT name || ': ' || error FROM pg_file_settings
		WHERE error IS NOT NULL AND error <> 'setting could not be applied' OR error IS NOT NULL AND name IN
		(SELECT name FROM pg_settings WHERE context <> 'postmaster')`)
	if err == nil && len(faults) > 0 {
		err = errors.New(strings.Join(faults, "; "))
	}
	if err != nil {
		return fmt.Errorf("set %s on server %q: %w", strings.Join(slices.Sorted(maps.Keys(settings)), ", "), s.name, err)
	}
	return nil
}

// SetHBA replaces the lines of pg_hba.conf for TCP connections, as Config.HBA
// gives them, and reloads a running server.
func (s *Server) SetHBA(ctx context.Context, lines ...string) error {
	if err := s.writeHBA(lines); err != nil {
		return err
	}
	if !s.Running() {
		return nil
	}
	return s.Reload(ctx)
}

// Reload makes the postmaster read its configuration files again, and returns when
// new sessions see the result. Running sessions and other processes of the server
// may take a moment longer.
func (s *Server) Reload(ctx context.Context) error {
	const loaded = "SELECT pg_conf_load_time()"
	before, err := QueryValue[time.Time](ctx, s, "postgres", loaded)
	if err != nil {
		return fmt.Errorf("reload server %q: %w", s.name, err)
	}
	if err := s.postmaster().signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("reload server %q: %w", s.name, err)
	}
	return poll.Until(ctx, waitTimeout, fmt.Sprintf("server %q to reload", s.name),
		func(ctx context.Context) (bool, string) {
			now, err := QueryValue[time.Time](ctx, s, "postgres", loaded)
			return err == nil && now.After(before), fmt.Sprintf("loaded at %s, error %v", now, err)
		})
}

// SetStandby turns a stopped server, such as a former primary, into a standby of
// the server that conninfo names. It takes effect at the next start. The slot, if
// not empty, must exist on the upstream (CreatePhysicalSlot).
func (s *Server) SetStandby(conninfo, slot string) error {
	if s.Running() {
		return fmt.Errorf("make server %q a standby: it runs (hint: stop it first)", s.name)
	}
	if err := s.writeDataFile("standby.signal", ""); err != nil {
		return err
	}
	s.mu.Lock()
	s.settings["primary_conninfo"] = conninfo
	s.settings["primary_slot_name"] = slot
	s.mu.Unlock()
	return s.writeSettings()
}

// IsStandby reports whether the data directory is one that will start, or has
// started, as a standby and was not promoted.
func (s *Server) IsStandby() bool {
	_, err := os.Stat(filepath.Join(s.dataDir, "standby.signal"))
	return !errors.Is(err, fs.ErrNotExist)
}
