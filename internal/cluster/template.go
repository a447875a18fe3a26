package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
)

// countFile stands in a template beside the data directory, and holds the number
// of files of that, so that a template which somebody tidied up is not used.
const countFile = "files"

// newDataDir fills dataDir as initdb does, by way of a template that is made once
// per version and arguments.
func newDataDir(ctx context.Context, cfg Config, own owner, dataDir string) error {
	template, err := openTemplate(ctx, cfg, own)
	if err != nil {
		return err
	}
	if _, err := copyTree(template, dataDir, own, nil); err != nil {
		return err
	}
	return renewSystemIdentifier(dataDir)
}

// openTemplate returns the data directory of the template, after making it if it
// is missing or damaged.
func openTemplate(ctx context.Context, cfg Config, own owner) (string, error) {
	dir := cfg.TemplateDir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "slotferry", "initdb")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make template directory: %w", err)
	}
	args := initdbArgs(cfg)
	key := sha256.Sum256([]byte(strings.Join(append([]string{cfg.Bin.BinDir}, args...), "\x00")))
	path := filepath.Join(dir, fmt.Sprintf("%s-%x", cfg.Bin.Version, key[:8]))

	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("lock template: %w", err)
	}
	defer lock.Close()
	err = poll.Until(ctx, waitTimeout, "another process's initdb", func(context.Context) (bool, string) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return "", err
	}
	data := filepath.Join(path, "data")
	if templateWhole(path, data) {
		return data, nil
	}
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("remove damaged template: %w", err)
	}
	if err := makeTemplate(ctx, cfg.Bin, args, own, path); err != nil {
		return "", fmt.Errorf("make template of PostgreSQL %s: %w", cfg.Bin.Version, err)
	}
	return data, nil
}

func templateWhole(path, data string) bool {
	text, err := os.ReadFile(filepath.Join(path, countFile))
	if err != nil {
		return false
	}
	files := 0
	err = filepath.WalkDir(data, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files++
		}
		return err
	})
	return err == nil && strconv.Itoa(files) == string(text)
}

// makeTemplate runs initdb in a directory that the owner can reach, and moves the
// result to path.
func makeTemplate(ctx context.Context, bin pgbin.Installation, args []string, own owner, path string) error {
	work, err := os.MkdirTemp("", "slotferry-initdb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := own.chown(work); err != nil {
		return err
	}
	if err := runInitdb(ctx, bin, append(args, "--pgdata", filepath.Join(work, "data")), own, work); err != nil {
		return err
	}
	self := owner{uid: os.Geteuid(), gid: os.Getegid()}
	partial := path + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	files, err := copyTree(filepath.Join(work, "data"), filepath.Join(partial, "data"), self, nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(partial, countFile), []byte(strconv.Itoa(files)), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

func initdbArgs(cfg Config) []string {
	return append([]string{
		"--username", Superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--no-sync",
	}, cfg.InitdbArgs...)
}

func runInitdb(ctx context.Context, bin pgbin.Installation, args []string, own owner, dir string) error {
	cmd := exec.CommandContext(ctx, bin.Program("initdb"), args...)
	own.prepare(cmd)
	cmd.Dir = dir
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	p, err := startProcess(cmd)
	if err != nil {
		return own.explain(fmt.Errorf("run initdb: %w", err))
	}
	<-p.done
	if p.err != nil {
		return errors.Join(fmt.Errorf("run initdb: %w", p.err), errors.New(strings.TrimSpace(output.String())))
	}
	return nil
}
