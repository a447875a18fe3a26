package decoder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile names the file in the state directory that a running helper holds
// locked.
const lockFile = "lock"

// ErrStateDirInUse means that another helper runs on the same state directory.
var ErrStateDirInUse = errors.New("another slotferry helper uses this state directory")

// openStateDirError reports a state directory that others can write to.
type openStateDirError struct {
	dir  string
	mode fs.FileMode
}

func (e *openStateDirError) Error() string {
	return fmt.Sprintf("state directory %s can be written to by everybody (mode %#o)", e.dir, e.mode.Perm())
}

// Hint says what to change.
func (e *openStateDirError) Hint() string { return "Give it to slotferry's user alone: chmod 700." }

// checkStateDir refuses a directory in which anybody could put a ledger: by that the
// helper drops and moves slots.
func checkStateDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at state directory: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return &openStateDirError{dir: dir, mode: info.Mode()}
	}
	return nil
}

// lockStateDir takes the state directory for this process. The lock goes with
// the process, however that ends: there is never a stale one to remove.
func lockStateDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	if err := checkStateDir(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrStateDirInUse
		}
		return nil, errors.Join(fmt.Errorf("lock state directory %s: %w", dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing is what unlocks
}
