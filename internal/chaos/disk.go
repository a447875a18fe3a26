package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// diskSize is how much a state directory of its own file system can hold: enough
// for the ledger, and soon filled.
const diskSize = 512 << 10

const ballastFile = "ballast"

// disk is a small file system that a state directory is on.
type disk struct{ dir string }

// mountDisk makes the directory and mounts a tmpfs there. It needs root.
func mountDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskSize)); err != nil {
		return nil, fmt.Errorf("mount a small file system: %w", err)
	}
	return &disk{dir}, nil
}

// fill takes all of its space.
func (d *disk) fill() error {
	f, err := os.Create(filepath.Join(d.dir, ballastFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 64 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
	return nil
}

func (d *disk) empty() error { return os.Remove(filepath.Join(d.dir, ballastFile)) }

func (d *disk) unmount() error { return syscall.Unmount(d.dir, syscall.MNT_DETACH) }

// CanMount reports whether a state directory can get a file system of its own
// here, nil when it can.
func CanMount() error {
	dir, err := os.MkdirTemp("", "slotferry-disk-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	d, err := mountDisk(dir)
	if err != nil {
		return err
	}
	return d.unmount()
}
