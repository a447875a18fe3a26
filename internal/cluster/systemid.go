package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// walSysidOffset is where XLogLongPageHeaderData (xlog_internal.h) has xlp_sysid:
// behind the 20 bytes of XLogPageHeaderData and 4 of padding.
const walSysidOffset = 24

// renewSystemIdentifier gives a data directory that initdb has just made a system
// identifier of its own. It stands first in pg_control, which ends in a CRC-32C,
// and in the header of each WAL segment, which has none.
func renewSystemIdentifier(dataDir string) error {
	id := newSystemIdentifier(time.Now())
	control := filepath.Join(dataDir, "global", "pg_control")
	if err := patchFile(control, func(b []byte) error { return patchControl(b, id) }); err != nil {
		return fmt.Errorf("renew system identifier: %w", err)
	}
	segments, err := filepath.Glob(filepath.Join(dataDir, "pg_wal", "0000*"))
	if err != nil || len(segments) == 0 {
		return errors.Join(errors.New("renew system identifier: no WAL segment"), err)
	}
	for _, segment := range segments {
		f, err := os.OpenFile(segment, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("renew system identifier: %w", err)
		}
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, id), walSysidOffset)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("renew system identifier: %w", err)
		}
	}
	return nil
}

// newSystemIdentifier composes an identifier as BootStrapXLOG (xlog.c) does:
// seconds, microseconds, and 12 bits of the process id. Those are random here,
// since one process makes many.
func newSystemIdentifier(now time.Time) uint64 {
	return uint64(now.Unix())<<32 | uint64(now.Nanosecond()/1000)<<12 | rand.Uint64N(1<<12)
}

// patchControl puts id into a pg_control and puts its CRC right. The offset of the
// CRC differs from version to version, so it is looked for: it is where the CRC
// of all bytes before stands.
func patchControl(b []byte, id uint64) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	for off := 8; off+4 <= min(len(b), 512); off += 4 {
		if binary.NativeEndian.Uint32(b[off:]) == crc32.Checksum(b[:off], table) {
			binary.NativeEndian.PutUint64(b, id)
			binary.NativeEndian.PutUint32(b[off:], crc32.Checksum(b[:off], table))
			return nil
		}
	}
	return errors.New("no CRC found in pg_control")
}

// patchFile changes a file in place, so that it keeps its owner.
func patchFile(path string, patch func([]byte) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := patch(b); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}
