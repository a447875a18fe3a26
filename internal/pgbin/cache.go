package pgbin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
)

// lockTimeout bounds the wait for another process that fetches into the cache.
const lockTimeout = 10 * time.Minute

// DefaultCacheDir returns the directory for what is fetched: os.UserCacheDir
// for ordinary users. Root's is closed to others, but root has to run servers
// as another user, so root caches under /var/cache.
func DefaultCacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/slotferry", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache directory: %w", err)
	}
	return filepath.Join(dir, "slotferry"), nil
}

// cacheEntry returns the directory name in the cache, after calling fill to
// make it if it is not there. fill gets an empty directory that becomes the
// entry in one rename, so an entry is there whole or not at all. Only one
// process fills an entry at a time.
func cacheEntry(ctx context.Context, cacheDir, name string, fill func(dir string) error) (string, error) {
	if cacheDir == "" {
		var err error
		if cacheDir, err = DefaultCacheDir(); err != nil {
			return "", err
		}
	}
	cacheDir, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", fmt.Errorf("open cache: %w", err)
	}
	entry := filepath.Join(cacheDir, name)
	if _, err := os.Stat(entry); err == nil {
		return entry, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("make cache: %w", err)
	}
	unlock, err := lockFile(ctx, entry+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(entry); err == nil {
		return entry, nil
	}
	tmp, err := os.MkdirTemp(cacheDir, name+".tmp")
	if err != nil {
		return "", fmt.Errorf("fill cache: %w", err)
	}
	defer os.RemoveAll(tmp)
	// MkdirTemp's mode is 0700, but other users run what is in there.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("fill cache: %w", err)
	}
	if err := fill(tmp); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, entry); err != nil {
		return "", fmt.Errorf("fill cache: %w", err)
	}
	return entry, nil
}

// lockFile takes an exclusive lock on a file, which it makes if needed. The lock
// ends with unlock or with the process.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock cache: %w", err)
	}
	var failed error
	err = poll.Until(ctx, lockTimeout, "lock on "+path, func(context.Context) (bool, string) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			failed = fmt.Errorf("lock %s: %w", path, err)
		}
		return err == nil || failed != nil, "another process holds it"
	})
	if err = errors.Join(failed, err); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
