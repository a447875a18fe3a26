package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/rig"
)

// settings are what the command line says.
type settings struct {
	major    int
	slots    []int
	mode     rig.Mode
	rate     int
	windows  int
	window   time.Duration
	births   int
	birthsAt int
	every    time.Duration
	binary   string
	out      string
}

func main() {
	var s settings
	slots, mode := "", ""
	flag.IntVar(&s.major, "pg", 17, "major version of PostgreSQL, 17 or newer")
	flag.StringVar(&slots, "slots", "1,10,50", "numbers of slots")
	flag.StringVar(&mode, "mode", string(rig.Inline), "inline or sidecar")
	flag.IntVar(&s.rate, "rate", 200, "transactions a second")
	flag.IntVar(&s.windows, "windows", 5, "windows in which lag and CPU time are measured")
	flag.DurationVar(&s.window, "window", 3*time.Second, "length of a window")
	flag.IntVar(&s.births, "births", 50, "slots that are born one after another, 0: none")
	flag.IntVar(&s.birthsAt, "births-at", 10, "the number of slots beside which they are born")
	flag.DurationVar(&s.every, "every", 300*time.Millisecond, "time between two births")
	flag.StringVar(&s.binary, "binary", "", "the slotferry to measure; empty: this one, built now")
	flag.StringVar(&s.out, "out", "bin/bench-slots.json", "where the figures go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := s.read(slots, mode)
	if err == nil {
		err = run(ctx, s)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "slotbench: %v\n", err)
		os.Exit(1)
	}
}

// read takes in the flags that are lists and names.
func (s *settings) read(slots, mode string) error {
	for text := range strings.SplitSeq(slots, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxSlots {
			return fmt.Errorf("-slots: %q is not a number from 1 to %d", text, maxSlots)
		}
		s.slots = append(s.slots, n)
	}
	switch s.mode = rig.Mode(mode); {
	case s.mode != rig.Inline && s.mode != rig.Sidecar:
		return fmt.Errorf("-mode: %q is neither %s nor %s", mode, rig.Inline, rig.Sidecar)
	case s.major < 17:
		return fmt.Errorf("-pg: PostgreSQL %d has no slot sync worker", s.major)
	case s.rate < 1 || s.windows < 1 || s.window <= 0 || s.every <= 0 || s.births < 0 || s.births > maxSlots:
		return fmt.Errorf("-rate, -windows, -window and -every must be above 0, -births at most %d", maxSlots)
	}
	return nil
}

// run measures one stage after the other, prints the table and writes the figures.
func run(ctx context.Context, s settings) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "slotferry-slotbench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := pgbin.Config{BinDirs: os.Getenv("SLOTFERRY_PG_BINDIRS")}
	bin, err := pgbin.Find(ctx, s.major, cfg)
	if err != nil {
		return err
	}
	pgbench, err := findPgbench(ctx, s.major, cfg)
	if err != nil {
		return err
	}
	if s.binary == "" {
		if s.binary, err = rig.Build(ctx, dir, false); err != nil {
			return err
		}
	}
	rep := newReport(s, bin.Version)
	for _, n := range s.slots {
		b := &bench{settings: s, slots: n, bin: bin, pgbench: pgbench, dir: filepath.Join(dir, strconv.Itoa(n))}
		st, err := b.run(ctx)
		if err != nil {
			return fmt.Errorf("%d slots: %w", n, err)
		}
		rep.Stages = append(rep.Stages, *st)
		fmt.Fprintf(os.Stderr, "%d slots are measured, after %.0f s\n", n, time.Since(began).Seconds())
	}
	rep.Seconds = time.Since(began).Seconds()
	if err := rep.print(os.Stdout); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.out), 0o755); err != nil {
		return err
	}
	return rep.write(s.out)
}
