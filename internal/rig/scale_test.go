//go:build scale

package rig

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/procstat"
)

const (
	scaleDatabases = 20
	scaleSlots     = 500
	scaleWindow    = 20 * time.Second
)

// TestScale measures what a helper with 500 slots in 20 databases costs: its own
// process and its sessions on the standby, as a share of one core, idle and while
// every slot moves at 2 MB/s of WAL. It is run by "make scale": figures of a busy
// machine say nothing, so it is no part of "make test".
func TestScale(t *testing.T) {
	major := clustertest.Majors(t)[len(clustertest.Majors(t))-1]
	dir := t.TempDir()
	binary, err := Build(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPair(t.Context(), Config{
		Bin: clustertest.Bin(t, major), Binary: binary, Mode: Inline, Dir: dir,
		Settings: map[string]string{"max_replication_slots": "600", "log_min_messages": "fatal", "log_replication_commands": "off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			log := p.Logs()
			t.Log(log[max(0, len(log)-8000):])
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := t.Context()
	conns := make([]func(sql string) error, scaleDatabases)
	for d := range conns {
		name := fmt.Sprintf("db%d", d)
		clustertest.Exec(t, p.A.Server, "postgres", "CREATE DATABASE "+name)
		conn, err := p.A.Server.Connect(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
		conns[d] = func(sql string) error { _, err := conn.Exec(ctx, sql); return err }
		if err := conns[d]("CREATE TABLE t (i bigserial, v text)"); err != nil {
			t.Fatal(err)
		}
	}
	tp := &testPair{Pair: p, t: t}
	tp.waitAnchor(p.B)
	began := time.Now()
	for i := range scaleSlots {
		if err := conns[i%scaleDatabases](fmt.Sprintf("SELECT pg_copy_logical_replication_slot('first', 's%d')", i)); err != nil {
			if err = conns[i%scaleDatabases](fmt.Sprintf("SELECT pg_create_logical_replication_slot('s%d', 'pgoutput')", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d slots born in %s", scaleSlots, time.Since(began).Round(time.Millisecond))
	poll.Require(t, 5*time.Minute, "all slots to be ready", func(ctx context.Context) (bool, string) {
		st, err := p.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for _, s := range st.Slots {
			if s.State == "ready" {
				ready++
			}
		}
		return ready == scaleSlots, fmt.Sprint(ready)
	})
	t.Logf("all ready %s after the first was born", time.Since(began).Round(time.Millisecond))

	measure := func(name string) {
		pid := p.B.Helper.PID()
		cpu0, back0 := procstat.CPU(pid), backendCPU(t, p.B.Server)
		start := time.Now()
		poll.Require(t, 2*scaleWindow, "the window", func(context.Context) (bool, string) { return time.Since(start) > scaleWindow, "" })
		window := time.Since(start).Seconds()
		t.Logf("%s: helper %.1f %% of a core, its sessions %.1f %%, memory %d MB", name,
			100*(procstat.CPU(pid)-cpu0).Seconds()/window, 100*(backendCPU(t, p.B.Server)-back0).Seconds()/window, procstat.RSS(pid)>>20)
	}
	poll.Require(t, 5*time.Minute, "all slots to have caught up", func(ctx context.Context) (bool, string) {
		st, err := p.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		behind := 0
		for _, s := range st.Slots {
			if s.Lag > 0 {
				behind++
			}
		}
		return behind == 0, fmt.Sprint(behind)
	})
	t.Logf("all caught up %s after the first was born", time.Since(began).Round(time.Millisecond))
	measure("idle")

	moving, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { // 2 MB/s of WAL
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-moving.Done():
				return
			case <-tick.C:
				_ = p.A.Server.Exec(moving, fmt.Sprintf("db%d", n%scaleDatabases),
					"INSERT INTO t (v) SELECT repeat('x', 900) FROM generate_series(1, 200)")
			}
		}
	})
	wg.Go(func() { // every slot's subscriber confirms about once in 3 s
		for i := 0; moving.Err() == nil; i++ {
			_ = p.A.Server.Exec(moving, fmt.Sprintf("db%d", i%scaleDatabases), fmt.Sprintf(
				"SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots WHERE database = 'db%d'", i%scaleDatabases))
		}
	})
	measure("moving")
	cancel()
	wg.Wait()
	st, err := p.B.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var maxLag, maxRetained uint64
	for _, s := range st.Slots {
		maxLag, maxRetained = max(maxLag, s.Lag), max(maxRetained, s.Retained)
	}
	t.Logf("at the end: largest lag %d MB, most WAL retained %d MB", maxLag>>20, maxRetained>>20)

	if err := p.A.Server.Kill9(); err != nil {
		t.Fatal(err)
	}
	promoted := time.Now()
	report := tp.promote(p.B)
	usable, dup := 0, uint64(0)
	for _, s := range report.Slots {
		if s.Usable {
			usable++
		}
		dup = max(dup, s.DuplicateBytes)
	}
	t.Logf("promotion: %d of %d usable %s after it, at most %d bytes sent twice", usable, len(report.Slots),
		time.Since(promoted).Round(time.Millisecond), dup)
}

// backendCPU is the CPU time of the helper's sessions that live now.
func backendCPU(t *testing.T, s *cluster.Server) time.Duration {
	t.Helper()
	pids, err := cluster.QueryColumn[int](t.Context(), s, "postgres",
		"SELECT pid FROM pg_stat_activity WHERE application_name = 'slotferry helper'")
	if err != nil {
		t.Fatal(err)
	}
	return procstat.CPU(pids...)
}
