package pgbin

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// unpackNPM unpacks a package's tarball into dir, without its leading
// "package/", and restores the symlinks that npm cannot carry.
func unpackNPM(tarball, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(h.Name, "package/")
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := unpackFile(root, name, tr); err != nil {
			return err
		}
	}
	return restoreSymlinks(root)
}

// unpackFile writes one file, readable by all. Everything under native/bin and
// every shared library is executable.
func unpackFile(root *os.Root, name string, r io.Reader) error {
	mode := os.FileMode(0o644)
	if strings.HasPrefix(name, "native/bin/") || strings.Contains(filepath.Base(name), ".so") {
		mode = 0o755
	}
	if err := mkdirOpen(root, filepath.Dir(name)); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	// The umask may have closed the file to the user that runs servers.
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// mkdirOpen makes a directory and its parents, open to all users whatever the
// umask is.
func mkdirOpen(root *os.Root, name string) error {
	if _, err := root.Stat(name); err == nil {
		return nil
	}
	if err := mkdirOpen(root, filepath.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// restoreSymlinks makes the links that native/pg-symlinks.json lists. There,
// "source" is the file and "target" is the link.
func restoreSymlinks(root *os.Root) error {
	text, err := root.ReadFile("native/pg-symlinks.json")
	if err != nil {
		return fmt.Errorf("restore symlinks: %w", err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("restore symlinks: pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		rel, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return fmt.Errorf("restore symlinks: %w", err)
		}
		if err := root.Symlink(rel, l.Target); err != nil {
			return fmt.Errorf("restore symlinks: %w", err)
		}
	}
	return nil
}
