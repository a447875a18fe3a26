package pgbin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// clientSuites are Debian's suites to look for a major's packages in.
var clientSuites = map[int][]string{
	17: {"trixie"},
	18: {"forky", "sid"},
}

const (
	debianArchive = "http://deb.debian.org/debian"
	debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	debianLibDir  = "usr/lib/x86_64-linux-gnu"
	debianLoader  = "ld-linux-x86-64.so.2" // in debianLibDir
)

// serverPrograms come with pgbench, but lack the server's libraries and files.
var serverPrograms = []string{"initdb", "pg_ctl", "pg_upgrade", "postgres"}

// fetchDebian fetches the client packages of a major version, and all they depend
// on, into dir: programs and libraries under dir/root, scripts that run them in
// dir/bin.
//
// The ordinary apt-get does it, with state of its own that knows one suite and no
// installed package. So it takes whichever minor version the archive has, and
// checks the archive's signature and each package's SHA-256. The host's packages
// and lists are not touched.
func fetchDebian(ctx context.Context, suite string, major int, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "apt.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	a := apt{dir: work}
	if err := a.init(suite); err != nil {
		return err
	}
	if err := a.run(ctx, "update"); err != nil {
		return err
	}
	client := fmt.Sprintf("postgresql-client-%d", major)
	if err := a.run(ctx, "install", "--yes", "--download-only", client); err != nil {
		return err
	}
	// pgbench comes with the server, whose dependencies it does not need.
	if err := a.run(ctx, "download", fmt.Sprintf("postgresql-%d", major)); err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	for _, pattern := range []string{"cache/archives/*.deb", "*.deb"} {
		packages, err := filepath.Glob(filepath.Join(work, pattern))
		if err != nil || len(packages) == 0 {
			return errors.Join(fmt.Errorf("apt-get fetched no %s", pattern), err)
		}
		for _, p := range packages {
			if err := run(ctx, work, "dpkg-deb", "--extract", p, unpacked); err != nil {
				return err
			}
		}
	}
	return installClient(unpacked, dir, fmt.Sprintf("usr/lib/postgresql/%d/bin", major))
}

// apt is an apt-get with a state of its own.
type apt struct{ dir string }

func (a apt) init(suite string) error {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "empty"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(a.dir, "status"), nil, 0o644); err != nil {
		return err
	}
	sources := fmt.Sprintf("deb [arch=amd64 signed-by=%s] %s %s main\n", debianKeyring, debianArchive, suite)
	return os.WriteFile(filepath.Join(a.dir, "sources.list"), []byte(sources), 0o644)
}

func (a apt) run(ctx context.Context, args ...string) error {
	options := []string{
		"Dir::State=" + filepath.Join(a.dir, "state"),
		"Dir::State::status=" + filepath.Join(a.dir, "status"),
		"Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"Dir::Etc::sourcelist=" + filepath.Join(a.dir, "sources.list"),
		"Dir::Etc::sourceparts=" + filepath.Join(a.dir, "empty"),
		"Dir::Etc::preferences=/dev/null",
		"Dir::Etc::preferencesparts=" + filepath.Join(a.dir, "empty"),
		"APT::Architecture=amd64",
		"APT::Architectures=amd64",
		"APT::Install-Recommends=false",
		"APT::Sandbox::User=", // the cache may be closed to apt's own user
		"Acquire::Languages=none",
		"Acquire::Retries=3",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		// A mirror that lags behind is good enough for tests.
		"Acquire::Check-Valid-Until=false",
	}
	command := []string{"-q"}
	for _, o := range options {
		command = append(command, "-o", o)
	}
	return run(ctx, a.dir, "apt-get", append(command, args...)...)
}

// run runs a program in dir. What it printed is part of the error.
func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(output.String()), "\n")
		return fmt.Errorf("run %s: %w: %s", program, err, strings.Join(lines[max(0, len(lines)-5):], "; "))
	}
	return nil
}

// installClient moves what is needed from the unpacked packages into dir, and
// writes the scripts.
func installClient(unpacked, dir, programs string) error {
	for _, part := range []string{debianLibDir, programs} {
		to := filepath.Join(dir, "root", part)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(unpacked, part), to); err != nil {
			return err
		}
	}
	// Below the libraries are only modules that no client program loads.
	libs, err := os.ReadDir(filepath.Join(dir, "root", debianLibDir))
	if err != nil {
		return err
	}
	for _, lib := range libs {
		if lib.IsDir() {
			if err := os.RemoveAll(filepath.Join(dir, "root", debianLibDir, lib.Name())); err != nil {
				return err
			}
		}
	}
	all, err := os.ReadDir(filepath.Join(dir, "root", programs))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	for _, program := range all {
		if slices.Contains(serverPrograms, program.Name()) {
			continue
		}
		path := filepath.Join(dir, "bin", program.Name())
		if err := os.WriteFile(path, []byte(wrapperScript(programs, program.Name())), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// wrapperScript runs a program by the dynamic loader of the libc that it was
// fetched with, since the host's may be too old for it. --argv0 makes pg_dumpall
// find pg_dump's script beside its own.
func wrapperScript(programs, program string) string {
	return fmt.Sprintf(`#!/bin/sh
root=${0%%/*}/../root
exec "$root/%[1]s/%[2]s" --library-path "$root/%[1]s" --argv0 "$0" "$root/%[3]s/%[4]s" "$@"
`, debianLibDir, debianLoader, programs, program)
}
