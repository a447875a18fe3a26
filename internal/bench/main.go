package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what the command line says.
type settings struct {
	core        int
	rounds      int
	length      time.Duration
	major       int
	parts       string
	contestants string
	binary      string
	out         string
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
	flag.DurationVar(&s.length, "length", 500*time.Millisecond, "length of one measurement of those that have one")
	flag.IntVar(&s.major, "pg", 17, "major version of PostgreSQL")
	flag.StringVar(&s.parts, "only", "", "parts to measure, comma-separated: "+partNames()+"; empty: all")
	flag.StringVar(&s.contestants, "contestants", "", "contestants to measure, comma-separated; empty: all")
	flag.StringVar(&s.binary, "binary", "", "the slotferry to measure; empty: built from the sources")
	flag.StringVar(&s.out, "out", "bin/bench.json", "where the figures go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// part is some rows of the table that are measured together.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

var parts = []part{
	{"bulk", (*bench).bulk}, {"small", (*bench).small}, {"paced", (*bench).paced}, {"ping", (*bench).pings},
	{"server", (*bench).servers}, {"tls", (*bench).encrypted}, {"standbys", (*bench).standbys},
	{"messages", (*bench).messages}, {"steady", (*bench).steady}, {"hold-back", (*bench).holdBack},
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// run measures, in the place that stage has prepared.
func run(ctx context.Context, s settings) error {
	dir := os.Getenv(stageVariable)
	if dir == "" {
		return stage(ctx, s)
	}
	defer os.RemoveAll(dir)
	if s.binary == "" {
		s.binary = filepath.Join(dir, "slotferry")
	}
	b := &bench{settings: s, dir: dir, report: newReport(s)}
	began := time.Now()
	for _, p := range parts {
		if s.parts != "" && !slices.Contains(strings.Split(s.parts, ","), p.name) {
			continue
		}
		partBegan := time.Now()
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", p.name, time.Since(partBegan).Seconds())
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
	report *report
}
