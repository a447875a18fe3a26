package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
)

// StandbyConfig says how to make a standby. The zero value streams directly from
// the upstream, without a slot.
type StandbyConfig struct {
	// Name is the standby's application_name and stands in errors. Empty means
	// "standby".
	Name string

	// SlotName is the physical slot on the upstream that the standby uses. It is
	// made unless it exists. Empty means none.
	SlotName string

	// Via is an address, host:port, to put into primary_conninfo instead of the
	// upstream's own, such as that of a relay. It need not listen yet.
	Via string

	// PrimaryConninfo replaces all of primary_conninfo. Via is not used then.
	PrimaryConninfo string

	// Dir and Port are as in Config.
	Dir  string
	Port int

	// Settings are added to those of the upstream, or replace them.
	Settings map[string]string

	// HBA is as in Config. Empty means the upstream's.
	HBA []string

	// NoStart leaves the standby for the caller to start.
	NoStart bool
}

// Standby makes a physical standby of this server, which may be a standby itself,
// and starts it. It returns when the standby accepts connections, which it does
// before it is connected to its upstream: the base backup comes with its WAL.
func (s *Server) Standby(ctx context.Context, cfg StandbyConfig) (*Server, error) {
	if cfg.Name == "" {
		cfg.Name = "standby"
	}
	conninfo, err := s.primaryConninfo(cfg)
	if err != nil {
		return nil, fmt.Errorf("make standby %q: %w", cfg.Name, err)
	}
	standby, err := newServer(cfg.Name, s.bin, cfg.Dir, cfg.Port)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	maps.Copy(standby.settings, s.settings)
	s.mu.Unlock()
	maps.Copy(standby.settings, cfg.Settings)
	if err := s.fillStandby(ctx, standby, cfg, conninfo); err != nil {
		return nil, errors.Join(fmt.Errorf("make standby %q of server %q: %w", cfg.Name, s.name, err), standby.Close())
	}
	return standby, nil
}

// primaryConninfo returns what the standby shall connect to.
func (s *Server) primaryConninfo(cfg StandbyConfig) (string, error) {
	switch {
	case cfg.PrimaryConninfo != "":
		return cfg.PrimaryConninfo, nil
	case cfg.Via == "":
		return s.ReplicationConninfo(cfg.Name), nil
	}
	host, port, err := net.SplitHostPort(cfg.Via)
	if err != nil {
		return "", fmt.Errorf("read Via: %w", err)
	}
	return fmt.Sprintf("host=%s port=%s user=%s dbname=postgres application_name=%s",
		quoteConninfo(host), port, Superuser, quoteConninfo(cfg.Name)), nil
}

func (s *Server) fillStandby(ctx context.Context, standby *Server, cfg StandbyConfig, conninfo string) error {
	// The slot first, so that the upstream keeps all WAL from the backup on.
	if cfg.SlotName != "" {
		if err := s.CreatePhysicalSlot(ctx, cfg.SlotName); err != nil {
			return err
		}
	}
	if err := s.baseBackup(ctx, standby); err != nil {
		return err
	}
	if err := standby.SetStandby(conninfo, cfg.SlotName); err != nil {
		return err
	}
	if len(cfg.HBA) > 0 {
		if err := standby.writeHBA(cfg.HBA); err != nil {
			return err
		}
	}
	if cfg.NoStart {
		return nil
	}
	return standby.Start(ctx)
}
