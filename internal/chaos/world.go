package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
)

// waitTime bounds each wait for what should take a second or two on a machine with
// nothing else to do. What is not there then is stuck.
const waitTime = 60 * time.Second

// settings are of all servers. Streamed transactions need little memory, and a
// network that is stalled has to be noticed within a round.
var settings = map[string]string{
	"logical_decoding_work_mem":   "64kB",
	"wal_receiver_timeout":        "6s",
	"wal_sender_timeout":          "6s",
	"checkpoint_timeout":          "30s",
	"max_standby_streaming_delay": "2s",
}

// Config is what a round needs beside its schedule.
type Config struct {
	Bin    pgbin.Installation
	Binary string // of slotferry, built with the race detector
	Dir    string // for all files of the round; must exist, and be reachable by the servers' user
	Disk   bool   // give state directories a file system of their own; else none is filled
	Clock  bool   // Binary was built with ClockOverlay; else no clock is moved

	Pace time.Duration // of the traffic, see bank.TrafficConfig

	Say func(format string, args ...any) // tells what happens; nil: nobody
}

// world is all that runs in a round.
type world struct {
	cfg      Config
	schedule Schedule
	began    time.Time
	legs     *legs
	disks    map[string]*disk // by node
	pair     *rig.Pair

	subscriber *cluster.Server
	traffic    map[string]*bank.Traffic // by database

	mu      sync.Mutex // guards all below
	primary *rig.Node
	standby *rig.Node
	streams map[string]*stream // by slot

	gone map[commitOf]bool // acknowledged commits that died with a primary

	acts    sync.WaitGroup                 // that are not undone yet
	serving atomic.Pointer[cluster.Server] // what applications connect to; nil: nothing
	watch   watch

	evidence Evidence
}

// commitOf names a commit by the database and the number of its transaction.
type commitOf struct {
	database    string
	transaction int64
}

func (w *world) say(format string, args ...any) {
	if w.cfg.Say != nil {
		w.cfg.Say("%6.2f s  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// stream returns the consumer of a test_decoding slot, nil if there never was one.
func (w *world) stream(slot string) *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[slot]
}

func newWorld(s Schedule, cfg Config) *world {
	return &world{
		cfg: cfg, schedule: s, began: time.Now(), disks: map[string]*disk{},
		traffic: map[string]*bank.Traffic{}, streams: map[string]*stream{}, gone: map[commitOf]bool{},
	}
}

// build puts everything together, and returns when all slots are ready.
func (w *world) build(ctx context.Context) error {
	var err error
	if w.legs, err = newLegs(); err != nil {
		return err
	}
	if w.cfg.Disk {
		for _, node := range []string{"a", "b", "c"} {
			if w.disks[node], err = mountDisk(filepath.Join(w.cfg.Dir, node+"-state")); err != nil {
				return err
			}
		}
	}
	w.pair, err = rig.NewPair(ctx, rig.Config{
		Bin: w.cfg.Bin, Binary: w.cfg.Binary, Mode: w.schedule.Mode, Dir: w.cfg.Dir, Servers: w.cfg.Dir,
		Settings: settings, Flags: []string{"--advance-interval", "1s"}, RelayFlags: w.relayFlags(), Cascade: w.schedule.Cascade, Via: w.legs.via,
	})
	if err != nil {
		return err
	}
	w.primary, w.standby = w.pair.A, w.pair.B
	w.subscriber, err = cluster.Start(ctx, cluster.Config{
		Bin: w.cfg.Bin, Name: "subscriber", Dir: filepath.Join(w.cfg.Dir, "subscriber"), Settings: settings,
	})
	if err != nil {
		return err
	}
	if err := w.populate(ctx); err != nil {
		return err
	}
	w.turnTo(w.primary)
	for _, c := range w.schedule.Consumers {
		if err := w.connect(ctx, c); err != nil {
			return err
		}
	}
	if err := w.copied(ctx); err != nil {
		return err
	}
	for _, t := range w.traffic {
		t.Follow(ctx, w.serving.Load)
	}
	return w.ready(ctx)
}

// populate makes databases and tables.
func (w *world) populate(ctx context.Context) error {
	for i, database := range databases {
		t := bank.NewTraffic(bank.TrafficConfig{
			Database: database, Writers: 3 - 2*i, Seed: w.schedule.Seed + uint64(i), Hard: true, Whole: w.schedule.abortsKill(), Pace: w.cfg.Pace,
		})
		for _, s := range []*cluster.Server{w.primary.Server, w.subscriber} {
			if i > 0 {
				if err := s.Exec(ctx, databases[0], "CREATE DATABASE "+database); err != nil {
					return err
				}
			}
			if err := s.Exec(ctx, database, bank.Schema); err != nil {
				return err
			}
		}
		if err := w.primary.Server.Exec(ctx, database, bank.Publish, t.Accounts()); err != nil {
			return err
		}
		w.traffic[database] = t
	}
	return nil
}

// connect makes a consumer's slot and lets it consume.
func (w *world) connect(ctx context.Context, c Consumer) error {
	if c.Plugin == testDecoding {
		return w.bear(ctx, c.Database, c.Name)
	}
	return w.subscriber.Exec(ctx, c.Database, fmt.Sprintf(
		"CREATE SUBSCRIPTION %s CONNECTION 'host=127.0.0.1 port=%d user=postgres dbname=%s' PUBLICATION bank WITH (streaming = %s, two_phase = %t)",
		c.Name, w.legs.subscriber.Port(), c.Database, c.Streaming, c.TwoPhase))
}

// copied waits until the subscriptions have made their initial copies. A copy
// under traffic can miss a commit that is in WAL and not yet in pg_xact
// (SnapBuildInitialSnapshot, snapbuild.c), with no fault in the way.
func (w *world) copied(ctx context.Context) error {
	for _, database := range databases {
		err := poll.Until(ctx, waitTime, "the initial copies", func(ctx context.Context) (bool, string) {
			left, err := cluster.QueryValue[int64](ctx, w.subscriber, database,
				"SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'")
			return err == nil && left == 0, fmt.Sprintf("%d tables are not copied, %v", left, err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// close ends everything. Processes that were stopped go on first.
func (w *world) close() error {
	w.serving.Store(nil)
	for _, s := range w.streams {
		s.stop()
	}
	var errs []error
	if w.subscriber != nil {
		errs = append(errs, w.subscriber.Close())
	}
	if w.pair != nil {
		errs = append(errs, w.pair.Close())
	}
	for _, t := range w.traffic {
		_ = t.Stop() // their servers are gone
	}
	if w.legs != nil {
		errs = append(errs, w.legs.close())
	}
	for _, d := range w.disks {
		errs = append(errs, d.unmount())
	}
	return errors.Join(errs...)
}

// Run plays a round. Its error says that the round could not be played; what the
// round has shown is in the verdict.
func Run(ctx context.Context, s Schedule, cfg Config) (v Verdict, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWorld(s, cfg)
	defer func() {
		cancel()      // what is held is let go,
		w.acts.Wait() // and nothing is started again behind close
		err = errors.Join(err, w.close(), faults(w.cfg.Dir))
	}()
	if err := w.build(ctx); err != nil {
		return v, fmt.Errorf("build: %w", err)
	}
	w.say("all slots are ready")
	for i := range s.Phases {
		if err := w.play(ctx, i); err != nil {
			if ctx.Err() != nil {
				return v, err
			}
			w.stuck(fmt.Sprintf("phase %d", i), err)
			break
		}
	}
	if len(w.evidence.Stuck) == 0 {
		if err := w.gather(ctx); err != nil {
			w.stuck("the end", err)
		}
	}
	if len(w.evidence.Stuck) > 0 {
		// A consumer that its own server kills shows nothing of slotferry.
		line, err := subscriberCrash(w.cfg.Dir)
		if err != nil || line != "" {
			return v, errors.Join(err, fmt.Errorf("the subscriber's server has crashed: %s", line))
		}
	}
	return Judge(&w.evidence), nil
}

func (w *world) stuck(when string, err error) {
	w.evidence.Stuck = append(w.evidence.Stuck, fmt.Sprintf("%s: %v", when, err))
	w.say("stuck in %s: %v", when, err)
}
