package pgbin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Config says where to look. The zero value looks at installed packages and
// then fetches into the default cache.
type Config struct {
	// BinDirs is a colon-separated list of bin directories to try first.
	BinDirs string

	// CacheDir holds what was fetched. Empty means DefaultCacheDir.
	CacheDir string
}

// Installation is a set of PostgreSQL programs of one version.
type Installation struct {
	Major   int
	Version string // as "postgres --version" prints it: "17.10"
	BinDir  string
}

// Program returns the path of one program, such as "initdb".
func (i Installation) Program(name string) string { return filepath.Join(i.BinDir, name) }

// Find returns binaries of a major version. It fetches them if it must, which
// takes a few seconds once per cache; processes that ask at the same time wait
// for one of them.
func Find(ctx context.Context, major int, cfg Config) (Installation, error) {
	var skipped []error
	for _, dir := range filepath.SplitList(cfg.BinDirs) {
		inst, err := inspect(ctx, dir)
		if err != nil {
			// A directory that the caller named and that does not work is worth
			// a word, but only if nothing else is found.
			skipped = append(skipped, err)
			continue
		}
		if inst.Major == major {
			return inst, nil
		}
	}
	if inst, err := inspect(ctx, fmt.Sprintf("/usr/lib/postgresql/%d/bin", major)); err == nil && inst.Major == major {
		return inst, nil
	}
	dir, err := fetchServer(ctx, major, cfg.CacheDir)
	if err != nil {
		return Installation{}, errors.Join(append([]error{err}, skipped...)...)
	}
	return inspect(ctx, dir)
}

// inspect asks the postgres in dir for its version, and looks for initdb.
func inspect(ctx context.Context, dir string) (Installation, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return Installation{}, fmt.Errorf("inspect bin directory: %w", err)
	}
	// postgres refuses root only when it is asked to do more than print its version.
	return programVersion(ctx, dir, "postgres")
}

// programVersion asks a program in dir for its version.
func programVersion(ctx context.Context, dir, program string) (Installation, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, program), "--version").Output()
	if err != nil {
		return Installation{}, fmt.Errorf("inspect bin directory %s: %s --version: %w", dir, program, err)
	}
	version, major, err := parseVersion(string(out))
	if err != nil {
		return Installation{}, fmt.Errorf("inspect bin directory %s: %w", dir, err)
	}
	return Installation{Major: major, Version: version, BinDir: dir}, nil
}

// parseVersion reads "postgres (PostgreSQL) 17.10 (Debian 17.10-1)", and also
// "18beta1" and "19devel".
func parseVersion(out string) (version string, major int, err error) {
	_, rest, ok := strings.Cut(out, "(PostgreSQL) ")
	if fields := strings.Fields(rest); ok && len(fields) > 0 {
		version = fields[0]
		digits := len(version) - len(strings.TrimLeft(version, "0123456789"))
		if major, err = strconv.Atoi(version[:digits]); err == nil {
			return version, major, nil
		}
	}
	return "", 0, fmt.Errorf("read version %q: want the output of postgres --version", strings.TrimSpace(out))
}
