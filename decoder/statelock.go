package decoder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile names the file in the state directory that a running helper holds
// locked.
const lockFile = "lock"

// ErrStateDirInUse means that another helper runs on the same state directory.
var ErrStateDirInUse = errors.New("another slotferry helper uses this state directory")

// lockStateDir takes the state directory for this process. The lock goes with
// the process, however that ends: there is never a stale one to remove.
func lockStateDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
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
