package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies the files below from to the directory to, which it makes, and
// gives them to own. Paths for which skip, if set, returns true are left out; it
// gets them relative to from. A file that goes away while it is copied is left
// out too: in a live data directory that is a matter of course. The result is the
// number of files copied.
func copyTree(from, to string, own owner, skip func(rel string, d fs.DirEntry) bool) (files int, err error) {
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case rel != "." && skip != nil && skip(rel, d):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			return own.chown(target)
		case d.Type().IsRegular():
			files++
			return copyFile(path, target, own)
		}
		return fmt.Errorf("%s is neither a file nor a directory: tablespaces are not supported", path)
	})
	if err != nil {
		return files, fmt.Errorf("copy %s: %w", from, err)
	}
	return files, nil
}

// copyFile copies one file, if it is still there.
func copyFile(from, to string, own owner) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // in the kernel, by copy_file_range
	return errors.Join(err, out.Close(), own.chown(to))
}
