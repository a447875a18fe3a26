package pgbin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// clientPrograms are what ClientTools promises.
var clientPrograms = []string{"pg_basebackup", "pg_receivewal", "pg_recvlogical", "pgbench", "psql"}

// ClientTools returns PostgreSQL's client programs of a major version: psql,
// pgbench, pg_basebackup, pg_receivewal, pg_recvlogical and their like. They work
// with servers of the same major and of older ones, and most of them refuse newer
// servers.
//
// It looks in the bin directories that the caller names, then in
// /usr/lib/postgresql/MAJOR/bin. Otherwise it fetches Debian's packages with apt
// into the cache, together with the shared libraries they were built for, and
// returns a directory of scripts that run them with those libraries. So the host
// need not be of the same release, but it must have apt-get and dpkg-deb.
func ClientTools(ctx context.Context, major int, cfg Config) (Installation, error) {
	dirs := append(filepath.SplitList(cfg.BinDirs), fmt.Sprintf("/usr/lib/postgresql/%d/bin", major))
	for _, dir := range dirs {
		if inst, err := inspectClient(ctx, dir); err == nil && inst.Major == major {
			return inst, nil
		}
	}
	suites, ok := clientSuites[major]
	if !ok {
		return Installation{}, withHint(fmt.Errorf("find client programs of PostgreSQL %d: not installed, and can fetch only %v",
			major, slices.Sorted(maps.Keys(clientSuites))), "install them, or name their bin directory")
	}
	entry, err := cacheEntry(ctx, cfg.CacheDir, fmt.Sprintf("postgresql-client-%d", major), func(dir string) error {
		return fetchClient(ctx, major, suites, dir)
	})
	if err != nil {
		return Installation{}, fmt.Errorf("fetch client programs of PostgreSQL %d: %w", major, err)
	}
	return inspectClient(ctx, filepath.Join(entry, "bin"))
}

// inspectClient looks for all the client programs in dir, and asks one for its
// version.
func inspectClient(ctx context.Context, dir string) (Installation, error) {
	for _, program := range clientPrograms {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return Installation{}, fmt.Errorf("inspect bin directory: %w", err)
		}
	}
	return programVersion(ctx, dir, "psql")
}

// fetchClient tries one suite after another: a package moves from suite to suite
// as Debian goes on.
func fetchClient(ctx context.Context, major int, suites []string, dir string) error {
	var errs []error
	for _, suite := range suites {
		err := fetchDebian(ctx, suite, major, dir)
		if err == nil {
			_, err = inspectClient(ctx, filepath.Join(dir, "bin"))
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		errs = append(errs, fmt.Errorf("suite %s: %w", suite, err))
		for _, part := range []string{"root", "bin"} {
			if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
				return err
			}
		}
	}
	return withHint(errors.Join(errs...), "install PostgreSQL's client programs, or name their bin directory "+
		"in SLOTFERRY_PG_BINDIRS; fetching needs apt-get, dpkg-deb and debian-archive-keyring")
}
