package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slotferry/slotferry/internal/rig"
)

// settings are what the command line says.
type settings struct {
	core   int
	rounds int
	length time.Duration
	major  int
	only   string
	out    string
}

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		if err := playRole(role, os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", role, err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.IntVar(&s.core, "core", runtime.NumCPU()-1, "the core that everything runs on")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of each figure")
	flag.DurationVar(&s.length, "length", time.Second, "length of one measurement of those that have one")
	flag.IntVar(&s.major, "pg", 17, "major version of PostgreSQL")
	flag.StringVar(&s.only, "only", "", "synthetic, tls, memory, server or hold-back; empty: all")
	flag.StringVar(&s.out, "out", "bin/bench.json", "where the figures go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run measures everything. The core is set for this process and so for all that it
// starts; the program under test is built before.
func run(ctx context.Context, s settings) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "slotferry-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := rig.Build(ctx, dir, false)
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(s.core)
	for _, tid := range threads(os.Getpid()) {
		if err := unix.SchedSetaffinity(tid, &set); err != nil {
			return fmt.Errorf("run on core %d: %w", s.core, err)
		}
	}
	b := &bench{settings: s, dir: dir, binary: binary, report: newReport(s)}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"synthetic", b.synthetic}, {"tls", b.encrypted}, {"memory", b.memory}, {"server", b.servers}, {"hold-back", b.holdBack},
	} {
		if s.only != "" && s.only != part.name {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	b.report.Seconds = time.Since(began).Seconds()
	b.report.print(os.Stdout)
	if err := os.MkdirAll(filepath.Dir(s.out), 0o755); err != nil {
		return err
	}
	return b.report.write(s.out)
}

// bench is one run of the program.
type bench struct {
	settings
	dir    string
	binary string
	report *report
}
