package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
)

// servers measures real PostgreSQL: synchronous commits, and pg_receivewal.
func (b *bench) servers(ctx context.Context) (err error) {
	bin, tools, err := binaries(ctx, b.major)
	if err != nil {
		return err
	}
	primary, err := cluster.Start(ctx, cluster.Config{Bin: bin, Settings: map[string]string{
		"autovacuum": "off", "log_replication_commands": "off", "checkpoint_timeout": "1h", "max_wal_size": "8GB", "shared_buffers": "128MB"}})
	if err != nil {
		return err
	}
	defer primary.Close()
	standby, err := primary.Standby(ctx, cluster.StandbyConfig{Name: "standby", SlotName: "standby"})
	if err != nil {
		return err
	}
	defer standby.Close()
	e := &engine{b: b, tools: tools, primary: primary, standby: standby}
	if err := e.prepare(ctx); err != nil {
		return err
	}
	for _, level := range []string{"remote_write", "remote_apply"} {
		for _, clients := range []int{1, 8} {
			all, err := e.rounds(ctx, b.among(direct, relayed, bigStock, twoHops), func(ctx context.Context, c *chain) (sample, error) {
				return e.commits(ctx, c, level, clients)
			})
			if err != nil {
				return err
			}
			what := fmt.Sprintf("pgbench %s, %d clients, tps", level, clients)
			b.report.ratio(what, all, throughputRaw, bigStock, atLeast, 0.99)
		}
	}
	all, err := e.rounds(ctx, b.among(direct, relayed, bigStock, twoHops), e.receive)
	if err != nil {
		return err
	}
	b.report.ratio("pg_receivewal, GB/s", all, throughput, bigStock, atLeast, 1.05)
	b.report.ratio("pg_receivewal, CPU s/GiB", all, cpuPerGiB, bigStock, atMost, 0.7)
	return nil
}

func throughputRaw(s sample) float64 { return float64(s.Bytes) / s.Seconds }

// engine is a primary with a standby that streams through one chain after the
// other.
type engine struct {
	b                *bench
	tools            pgbin.Installation
	primary, standby *cluster.Server
	to               string // where pg_receivewal stops, short of the end: there it would wait
}

// prepare makes the table and the WAL that there is to receive.
func (e *engine) prepare(ctx context.Context) error {
	err := e.primary.Exec(ctx, "postgres", "CREATE TABLE note (n bigint, t text)",
		"SELECT pg_create_physical_replication_slot('kept', true)", "SELECT pg_switch_wal()")
	if err != nil {
		return err
	}
	err = e.primary.Exec(ctx, "postgres", "SELECT count(pg_logical_emit_message(false, 'bulk', repeat('WAL ', 250000))) FROM generate_series(1, 700)")
	if err != nil {
		return err
	}
	e.to, err = cluster.QueryValue[string](ctx, e.primary, "postgres", "SELECT pg_current_wal_lsn()::text")
	if err != nil {
		return err
	}
	return e.primary.Exec(ctx, "postgres", "SELECT pg_switch_wal()")
}

func (e *engine) rounds(ctx context.Context, names []string, run func(context.Context, *chain) (sample, error)) (map[string][]sample, error) {
	all := map[string][]sample{}
	for round := range e.b.rounds {
		for _, name := range turn(names, round) {
			c, err := e.b.start(ctx, name, e.primary.Port(), nil)
			if err != nil {
				return nil, err
			}
			s, err := run(ctx, c)
			c.close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = append(all[name], s)
		}
	}
	return all, nil
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// commits runs pgbench with the standby behind the chain.
func (e *engine) commits(ctx context.Context, c *chain, level string, clients int) (s sample, err error) {
	conninfo := fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=standby sslmode=disable gssencmode=disable", c.port, cluster.Superuser)
	if err := e.primary.SetConf(ctx, "synchronous_standby_names", ""); err != nil {
		return s, err
	}
	if err := e.standby.SetConf(ctx, "primary_conninfo", conninfo); err != nil {
		return s, err
	}
	if err := poll.Until(ctx, 20*time.Second, "the standby to stream through "+c.name, func(ctx context.Context) (bool, string) {
		port, err := cluster.QueryValue[int](ctx, e.standby, "postgres", "SELECT coalesce((SELECT sender_port FROM pg_stat_wal_receiver WHERE status = 'streaming'), 0)")
		return err == nil && port == c.port, fmt.Sprint(port, err)
	}); err != nil {
		return s, err
	}
	if err := e.primary.SetConf(ctx, "synchronous_standby_names", "standby"); err != nil {
		return s, err
	}
	script := filepath.Join(e.b.dir, "insert.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO note VALUES (1, 'a small transaction');\n"), 0o600); err != nil {
		return s, err
	}
	cmd := exec.CommandContext(ctx, e.tools.Program("pgbench"), "-n", "-c", strconv.Itoa(clients), "-M", "prepared", "-T",
		strconv.Itoa(max(1, int(e.b.length.Seconds()))), "-f", script, "-h", "127.0.0.1", "-p", strconv.Itoa(e.primary.Port()),
		"-U", cluster.Superuser, "postgres")
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c synchronous_commit="+level)
	before := use(c.pids...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("pgbench: %w, %s", err, out)
	}
	s.usage = use(c.pids...).since(before)
	m := tps.FindSubmatch(out)
	if m == nil {
		return s, fmt.Errorf("pgbench says no tps: %s", out)
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	s.Bytes, s.Seconds = int(rate*1000), 1000
	return s, err
}

// receive runs pg_receivewal from the same position to the end of WAL.
func (e *engine) receive(ctx context.Context, c *chain) (s sample, err error) {
	dir, err := os.MkdirTemp(e.b.dir, "wal-*")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	// pg_receivewal confirms what it has; each run gets a slot of its own.
	if err := e.primary.Exec(ctx, "postgres", "SELECT pg_copy_physical_replication_slot('kept', 'receive')"); err != nil {
		return s, err
	}
	defer func() {
		if e := e.primary.Exec(ctx, "postgres", "SELECT pg_drop_replication_slot('receive')"); err == nil {
			err = e
		}
	}()
	s.Bytes, err = cluster.QueryValue[int](ctx, e.primary, "postgres",
		"SELECT ($1::pg_lsn - restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = 'kept'", e.to)
	if err != nil {
		return s, err
	}
	cmd := exec.CommandContext(ctx, e.tools.Program("pg_receivewal"), "-D", dir, "-S", "receive", "-E", e.to, "--no-sync", "-s", "0", "-n",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=%s sslmode=disable gssencmode=disable", c.port, cluster.Superuser))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	before, began := use(c.pids...), time.Now()
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("pg_receivewal: %w, %s", err, &out)
	}
	s.Seconds = time.Since(began).Seconds()
	s.usage = use(c.pids...).since(before)
	return s, nil
}
