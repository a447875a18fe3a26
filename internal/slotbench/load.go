package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
)

const publication = "bench"

// findPgbench takes an installed pgbench of any version, or one that goes with the
// server.
func findPgbench(ctx context.Context, major int, cfg pgbin.Config) (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	tools, err := pgbin.ClientTools(ctx, major, cfg)
	if err != nil {
		return "", err
	}
	return tools.Program("pgbench"), nil
}

// prepareLoad makes pgbench's tables. Each row of its history gets a number, by
// which subscribers know what they have.
func (b *bench) prepareLoad(ctx context.Context) error {
	out, err := b.pgbenchCommand(ctx, "-i", "-q", "-s", "2").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgbench -i: %w, %s", err, out)
	}
	return b.pair.A.Server.Exec(ctx, "postgres", "ALTER TABLE pgbench_history ADD COLUMN id bigserial PRIMARY KEY",
		"CREATE PUBLICATION "+publication+" FOR TABLE pgbench_history (id)")
}

func (b *bench) pgbenchCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, b.pgbench, append(args, "-h", cluster.Host, "-p", strconv.Itoa(b.pair.A.Server.Port()),
		"-U", cluster.Superuser, "postgres")...)
}

// load is a pgbench that runs.
type load struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended bool
}

// startLoad runs pgbench's TPC-B-like transactions at the fixed rate.
func (b *bench) startLoad(ctx context.Context) (*load, error) {
	l := &load{cmd: b.pgbenchCommand(ctx, "-n", "-M", "prepared", "-c", "4", "-T", "3600", "-R", strconv.Itoa(b.rate))}
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start pgbench: %w", err)
	}
	return l, nil
}

// end ends pgbench, which may have ended with its server.
func (l *load) end() {
	if l.ended {
		return
	}
	l.ended = true
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait() // killed
}
