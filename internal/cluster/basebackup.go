package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/protocol"
)

// Directories of which a base backup takes no contents (basebackup.c,
// excludeDirContents). WAL is copied later, when it is known which.
var emptyInBackup = []string{
	"pg_wal", "pg_replslot", "pg_stat_tmp", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_subtrans",
}

// Files that a base backup leaves out (basebackup.c, excludeFiles). pg_control is
// copied last.
var notInBackup = []string{
	"postmaster.pid", "postmaster.opts", "postgresql.auto.conf.tmp", "current_logfiles", "backup_label",
	"backup_label.old", "tablespace_map", "tablespace_map.old", "backup_manifest", "standby.signal",
	"recovery.signal", "pg_control", settingsFile,
}

// baseBackup fills the data directory of a new server as pg_basebackup with its
// WAL fetched does. The server may be a primary or a standby.
func (s *Server) baseBackup(ctx context.Context, to *Server) error {
	conn, err := s.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // ends a backup that was not stopped

	begin := "SELECT pg_backup_start('cluster', fast => true)"
	if s.Major() < 15 {
		begin = "SELECT pg_start_backup('cluster', fast => true, exclusive => false)"
	}
	if _, err := conn.Exec(ctx, begin); err != nil {
		return fmt.Errorf("start backup: %w", err)
	}
	if _, err := copyTree(s.dataDir, to.dataDir, to.own, skipInBackup); err != nil {
		return err
	}
	control := filepath.Join("global", "pg_control")
	err = copyFile(filepath.Join(s.dataDir, control), filepath.Join(to.dataDir, control), to.own)
	if err != nil {
		return fmt.Errorf("copy pg_control: %w", err)
	}
	end, err := stopBackup(ctx, conn, s.Major())
	if err != nil {
		return err
	}
	if err := s.copyWAL(to, end); err != nil {
		return err
	}
	return to.writeDataFile("backup_label", end.label)
}

func skipInBackup(rel string, _ fs.DirEntry) bool {
	top, _, inside := strings.Cut(rel, string(filepath.Separator))
	for _, dir := range emptyInBackup {
		if inside && top == dir {
			return true
		}
	}
	name := filepath.Base(rel)
	for _, file := range notInBackup {
		if name == file {
			return true
		}
	}
	return strings.HasPrefix(name, "pgsql_tmp") || strings.HasPrefix(name, "pg_internal.init")
}

// backupEnd is what the server says about a backup when it ends.
type backupEnd struct {
	label        string // contents of backup_label
	firstSegment string // name of the WAL segment that recovery starts in
	lastSegment  string // name of the WAL segment that the backup ends in
}

func stopBackup(ctx context.Context, conn *pgx.Conn, major int) (backupEnd, error) {
	stop := "pg_backup_stop(wait_for_archive => false)"
	if major < 15 {
		stop = "pg_stop_backup(exclusive => false, wait_for_archive => false)"
	}
	var lsn, label, spcmap string
	var segmentSize uint64
	err := conn.QueryRow(ctx, `SELECT lsn::text, labelfile, spcmapfile,
		(SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size')
		FROM `+stop).Scan(&lsn, &label, &spcmap, &segmentSize)
	if err != nil {
		return backupEnd{}, fmt.Errorf("stop backup: %w", err)
	}
	if spcmap != "" {
		return backupEnd{}, fmt.Errorf("stop backup: tablespaces are not supported")
	}
	end, err := protocol.ParseLSN(lsn)
	if err != nil {
		return backupEnd{}, fmt.Errorf("stop backup: %w", err)
	}
	// The first line is "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)".
	_, rest, ok := strings.Cut(label, "(file ")
	first, _, closed := strings.Cut(rest, ")")
	if !ok || !closed || len(first) != 24 {
		return backupEnd{}, fmt.Errorf("stop backup: no WAL file in backup_label %q", label)
	}
	return backupEnd{label: label, firstSegment: first, lastSegment: first[:8] + segmentSuffix(end-1, segmentSize)}, nil
}

// segmentSuffix returns the name of the segment that holds lsn, without its
// timeline (xlog_internal.h, XLogFileName). pg_walfile_name does not work on a
// standby.
func segmentSuffix(lsn protocol.LSN, segmentSize uint64) string {
	segment := uint64(lsn) / segmentSize
	perID := uint64(1<<32) / segmentSize
	return fmt.Sprintf("%08X%08X", segment/perID, segment%perID)
}

// copyWAL copies the segments that the backup needs to become consistent, and all
// timeline histories.
func (s *Server) copyWAL(to *Server, end backupEnd) error {
	entries, err := os.ReadDir(filepath.Join(s.dataDir, "pg_wal"))
	if err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		segment := len(name) == 24 && name[8:] >= end.firstSegment[8:] && name[8:] <= end.lastSegment[8:]
		if !segment && !strings.HasSuffix(name, ".history") {
			continue
		}
		err := copyFile(filepath.Join(s.dataDir, "pg_wal", name), filepath.Join(to.dataDir, "pg_wal", name), to.own)
		if err != nil {
			return fmt.Errorf("copy WAL: %w", err)
		}
	}
	return nil
}
