package cluster

import (
	"context"
	"fmt"
	"syscall"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// CurrentLSN returns the end of the WAL that the server, a primary, has written.
func (s *Server) CurrentLSN(ctx context.Context) (protocol.LSN, error) {
	return s.queryLSN(ctx, "SELECT pg_current_wal_lsn()::text")
}

// ReplayLSN returns the end of the WAL that the server, a standby, has replayed,
// or 0/0 if it has replayed none since its start.
func (s *Server) ReplayLSN(ctx context.Context) (protocol.LSN, error) {
	return s.queryLSN(ctx, "SELECT pg_last_wal_replay_lsn()::text")
}

func (s *Server) queryLSN(ctx context.Context, sql string) (protocol.LSN, error) {
	text, err := QueryValue[*string](ctx, s, "postgres", sql)
	if err != nil || text == nil {
		return protocol.InvalidLSN, err
	}
	return protocol.ParseLSN(*text)
}

// WaitForReplay waits until the server, a standby, has replayed the WAL up to lsn.
func (s *Server) WaitForReplay(ctx context.Context, lsn protocol.LSN) error {
	return poll.Until(ctx, waitTimeout, fmt.Sprintf("standby %q to replay up to %s", s.name, lsn),
		func(ctx context.Context) (bool, string) {
			replayed, err := s.ReplayLSN(ctx)
			if err != nil {
				return false, err.Error()
			}
			return replayed >= lsn, "replayed up to " + replayed.String()
		})
}

// WaitForStandby waits until a standby has replayed all that this server, its
// primary, has written by now.
func (s *Server) WaitForStandby(ctx context.Context, standby *Server) error {
	lsn, err := s.CurrentLSN(ctx)
	if err != nil {
		return err
	}
	return standby.WaitForReplay(ctx, lsn)
}

// WaitForStreaming waits until the server has a walsender in state streaming for
// the given application_name.
func (s *Server) WaitForStreaming(ctx context.Context, applicationName string) error {
	return poll.Until(ctx, waitTimeout, fmt.Sprintf("server %q to stream to %q", s.name, applicationName),
		func(ctx context.Context) (bool, string) {
			states, err := QueryColumn[string](ctx, s, "postgres",
				"SELECT state FROM pg_stat_replication WHERE application_name = $1", applicationName)
			for _, state := range states {
				if state == "streaming" {
					return true, ""
				}
			}
			return false, fmt.Sprintf("walsenders %v, error %v", states, err)
		})
}

// Promote ends recovery, and returns when the server accepts writes. It does so as
// pg_ctl does, without a session: one that begins may have to wait for a lock on a
// catalog that a dead primary held, until the promotion.
func (s *Server) Promote(ctx context.Context) error {
	if s.postmaster() == nil {
		return fmt.Errorf("promote server %q: it was never started", s.name)
	}
	var p *process
	err := poll.Until(ctx, waitTimeout, fmt.Sprintf("start of server %q", s.name), func(context.Context) (bool, string) {
		// A postmaster that starts removes the file (RemovePromoteSignalFiles, xlog.c).
		p = s.postmaster()
		status := s.status(p.pid)
		return status == "ready" || status == "standby", "postmaster is " + status
	})
	if err == nil {
		err = s.writeDataFile("promote", "") // PROMOTE_SIGNAL_FILE (xlog.h)
	}
	if err == nil {
		err = p.signal(syscall.SIGUSR1)
	}
	if err != nil {
		return fmt.Errorf("promote server %q: %w", s.name, err)
	}
	return poll.Until(ctx, waitTimeout, fmt.Sprintf("promotion of server %q", s.name),
		func(ctx context.Context) (bool, string) {
			recovering, err := QueryValue[bool](ctx, s, "postgres", "SELECT pg_is_in_recovery()")
			return err == nil && !recovering, fmt.Sprintf("in recovery, error %v", err)
		})
}

// CreatePhysicalSlot makes a physical slot that reserves WAL at once, unless there
// is one with that name.
func (s *Server) CreatePhysicalSlot(ctx context.Context, name string) error {
	_, err := QueryColumn[*string](ctx, s, "postgres", `SELECT pg_create_physical_replication_slot($1, true)::text
		WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`, name)
	if err != nil {
		return fmt.Errorf("create physical slot %q: %w", name, err)
	}
	return nil
}
