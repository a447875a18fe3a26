// Command rounds plays chaos rounds and says what each cost its consumers.
//
// It is run by "make chaos". The environment says how: ROUNDS is how many (1),
// SEED the seed of the first, and each other's is one more (from the clock), PG
// the major version (16, 17, 18 or all, the default), SHORT=1 plays the short rounds
// of "make test", JOBS is how many are played at once (2), PLAN=1 only prints what
// would be done. SLOTFERRY_PG_BINDIRS names bin directories of PostgreSQL to look at
// first.
//
// The exit status is 0 when no round has shown a fault, 1 when one has or could
// not be played, 3 when it was called in a wrong way. What a bad round has left is
// kept, and the command that plays it again is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/chaos"
	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/rig"
)

// The exit statuses.
const (
	exitFailed = 1
	exitUsage  = 3
)

func main() { os.Exit(run()) }

func run() int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	o, err := readOptions(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return exitUsage
	}
	if err := chaos.CanMount(); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: NO FULL DISKS in these rounds: %v (hint: run it as root)\n", err)
	} else {
		o.disk = true
	}
	if os.Getenv("PLAN") != "" {
		for i := range o.rounds {
			s := chaos.NewSchedule(o.seed+uint64(i), o.limits)
			fmt.Print(s.String())
		}
		return 0
	}
	p := player{options: o}
	if err := p.prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return exitFailed
	}
	defer os.RemoveAll(p.dir)
	p.play(ctx)
	fmt.Print(p.total.String())
	if p.total.faults() > 0 || p.total.Rounds < o.rounds {
		return exitFailed
	}
	return 0
}

// player plays rounds, some at once.
type player struct {
	options
	dir    string // of the binary
	binary string
	bins   map[int]pgbin.Installation

	mu    sync.Mutex // guards all below, and stdout
	total total
}

// prepare finds PostgreSQL and builds slotferry: with the race detector, and with
// a clock that can be moved.
func (p *player) prepare(ctx context.Context) error {
	p.bins = map[int]pgbin.Installation{}
	for _, major := range p.limits.Majors {
		var err error
		if p.bins[major], err = pgbin.Find(ctx, major, pgbin.Config{BinDirs: os.Getenv("SLOTFERRY_PG_BINDIRS")}); err != nil {
			return err
		}
	}
	var err error
	if p.dir, err = os.MkdirTemp("", "slotferry-chaos-bin-"); err != nil {
		return err
	}
	flags, err := chaos.ClockOverlay(ctx, p.dir)
	if err == nil {
		p.binary, err = rig.Build(ctx, p.dir, true, flags...)
	}
	return err
}

func (p *player) play(ctx context.Context) {
	seeds := make(chan uint64)
	var jobs sync.WaitGroup
	for range p.jobs {
		jobs.Go(func() {
			for seed := range seeds {
				p.round(ctx, seed)
			}
		})
	}
	for i := range p.rounds {
		select {
		case seeds <- p.seed + uint64(i):
		case <-ctx.Done():
		}
	}
	close(seeds)
	jobs.Wait()
}

// round plays one round, and keeps its files if it was not good.
func (p *player) round(ctx context.Context, seed uint64) {
	s := chaos.NewSchedule(seed, p.limits)
	began := time.Now()
	dir, err := os.MkdirTemp("", fmt.Sprintf("slotferry-chaos-%d-", seed))
	if err == nil {
		err = os.Chmod(dir, 0o755) // servers run as another user when this is root
	}
	var log []byte
	var v chaos.Verdict
	if err == nil {
		v, err = chaos.Run(ctx, s, chaos.Config{
			Bin: p.bins[s.Major], Binary: p.binary, Dir: dir, Disk: p.disk, Clock: true,
			Say: func(format string, args ...any) {
				p.mu.Lock()
				defer p.mu.Unlock()
				log = fmt.Appendf(log, format+"\n", args...)
			},
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil && err != nil {
		_ = os.RemoveAll(dir) // interrupted: nothing was shown
		return
	}
	p.total.add(&v, err)
	fmt.Printf("seed %d: PostgreSQL %d, %s, %.0f s: ", seed, s.Major, s.Mode, time.Since(began).Seconds())
	if err == nil && v.Good() {
		fmt.Printf("good. %s\n", v.String())
		err = os.RemoveAll(dir)
	} else {
		fmt.Printf("BAD\n%s%s\n", s.String(), v.String())
		fmt.Printf("again: make chaos ROUNDS=1 SEED=%d%s\nlogs and data directories: %s\n", seed, p.again(), dir)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "round.txt"), fmt.Appendf(log, "\n%s%s\n", s.String(), v.String()), 0o600))
	}
	if err != nil {
		fmt.Println("error:", err)
	}
}

// again is what the command to play a round again needs beside its seed.
func (p *player) again() string {
	text := ""
	if p.limits.Short {
		text = " SHORT=1"
	}
	if len(p.limits.Majors) == 1 {
		text += " PG=" + strconv.Itoa(p.limits.Majors[0])
	}
	return text
}
