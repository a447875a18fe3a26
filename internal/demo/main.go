// Command demo kills a primary in mid-traffic and proves, row by row, what its
// logical subscribers have lost: nothing that the new primary has.
//
// It is run by "make demo". The environment says how: PG is the major version
// (16, 17, 18 or all), MODE is how the helper gets at slot state (inline, sidecar,
// solo or all), AHEAD=1 cuts the standby off before the kill, so that the
// subscriber gets ahead of it, KEEP=1 leaves servers' files and logs in place,
// SLOTFERRY_PG_BINDIRS names bin directories of PostgreSQL to look at first.
//
// The exit status is 0 when nothing is lost, 1 when something is or the demo could
// not be run, 3 when it was called in a wrong way.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/rig"
)

// The exit statuses.
const (
	exitFailed = 1
	exitUsage  = 3
)

var (
	majors = []int{16, 17, 18}
	modes  = []rig.Mode{rig.Inline, rig.Sidecar, rig.Solo}
)

func main() { os.Exit(run()) }

func run() int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	runs, err := plan(os.Getenv("PG"), os.Getenv("MODE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitUsage
	}
	status := 0
	for _, cfg := range runs {
		cfg.keep, cfg.cutOff = isSet("KEEP"), isSet("AHEAD")
		cfg.out = os.Stdout
		cfg.phase = 4 * time.Second
		if cfg.bin, err = find(ctx, cfg.major); err == nil {
			err = cfg.run(ctx)
		}
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(os.Stderr, "demo: interrupted")
			return exitFailed
		case errors.Is(err, errLoss):
			status = exitFailed // the table has said what
		case err != nil:
			fmt.Fprintln(os.Stderr, "demo:", err)
			status = exitFailed
		}
	}
	return status
}

func isSet(name string) bool {
	value := os.Getenv(name)
	return value != "" && value != "0"
}

// plan says what to run. An empty PG is 17, an empty MODE inline.
func plan(pg, mode string) ([]config, error) {
	var runs []config
	for _, major := range majors {
		for _, m := range modes {
			if (pg == "all" || pg == strconv.Itoa(major) || pg == "" && major == 17) &&
				(mode == "all" || mode == string(m) || mode == "" && m == rig.Inline) {
				runs = append(runs, config{major: major, mode: m})
			}
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("PG=%s MODE=%s: want PG 16, 17, 18 or all, and MODE inline, sidecar, solo or all", pg, mode)
	}
	return runs, nil
}

// find looks for PostgreSQL, and says so when that takes a while: then it is
// being fetched.
func find(ctx context.Context, major int) (pgbin.Installation, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sayFetching(ctx, major)
	}()
	bin, err := pgbin.Find(ctx, major, pgbin.Config{BinDirs: os.Getenv("SLOTFERRY_PG_BINDIRS")})
	cancel()
	<-done
	return bin, err
}

func sayFetching(ctx context.Context, major int) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			fmt.Fprintf(os.Stderr, "fetching PostgreSQL %d from npm, about 23 MB: %.0f s\n", major, now.Sub(began).Seconds())
		}
	}
}
