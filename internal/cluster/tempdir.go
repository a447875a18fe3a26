package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// tempPrefix begins the names of temporary directories.
const tempPrefix = "slotferry-"

// lockName is a file in each temporary directory that its process holds a lock on.
// A directory whose lock is free belongs to a process that was killed.
const lockName = "lock"

// makeDir makes the directory of a server. Without a name for it, it makes a
// temporary one and returns the lock on it, for Close to let go.
func makeDir(dir, name string, own owner) (path string, lock *os.File, err error) {
	if dir == "" {
		sweep()
		path, lock, err = makeTempDir(name)
	} else if path, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	if err == nil {
		err = own.chown(path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make directory of server %q: %w", name, err)
	}
	return path, lock, nil
}

func makeTempDir(name string) (path string, lock *os.File, err error) {
	if path, err = os.MkdirTemp("", tempPrefix+name+"-"); err != nil {
		return "", nil, err
	}
	// The lock gets its name when it is held, so that no sweep can take it before.
	unnamed := filepath.Join(path, lockName+".new")
	if lock, err = lockFile(unnamed); err == nil {
		err = os.Rename(unnamed, filepath.Join(path, lockName))
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(path))
	}
	return path, lock, nil
}

// sweep removes what killed processes have left: their servers' temporary
// directories and System V shared memory. What cannot be removed, such as another
// user's, stays; no test should fail for it.
func sweep() {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*", lockName))
	if err != nil {
		return
	}
	for _, path := range locks {
		lock, err := lockFile(path)
		if err != nil {
			continue
		}
		dir := filepath.Dir(path)
		removeSharedMemory(filepath.Join(dir, "data"))
		_ = os.RemoveAll(dir)
		lock.Close()
	}
}

// lockFile takes a lock that ends when the file is closed or the process dies. It
// fails with EWOULDBLOCK if another holds it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
