package decoder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// files are what replaceFile needs of a file system.
type files interface {
	create(path string) (newFile, error)
	rename(from, to string) error
	remove(path string) error
	syncDir(path string) error
}

// newFile is a file that is being written.
type newFile interface {
	io.Writer
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

// replaceFile writes content so that after a crash at any moment the file is the
// old one or the new one, whole, and the new one when it has returned nil: the
// content is on disk before it gets its name, and the name before it returns. Only
// the owner can read it.
func replaceFile(fsys files, path string, content []byte) (err error) {
	tmp := path + ".new"
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	f, err := fsys.create(tmp)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600) // one that a crash left behind keeps its mode
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, fsys.remove(tmp))
	}
	return fsys.syncDir(filepath.Dir(path))
}

// osFiles is the operating system's file system.
type osFiles struct{}

func (osFiles) create(path string) (newFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func (osFiles) rename(from, to string) error { return os.Rename(from, to) }

func (osFiles) remove(path string) error { return os.Remove(path) }

func (osFiles) syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
