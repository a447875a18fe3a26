package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
	"github.com/slotferry/slotferry/protocol"
)

// waitTime bounds each wait for what should take a second or two.
const waitTime = 30 * time.Second

const writers = 6

// The slots of the demo: the subscription's has the subscription's name.
const (
	subscriptionSlot = "orders"
	consumerSlot     = "audit"
)

var slots = []string{consumerSlot, subscriptionSlot}

// config is one run of the demo.
type config struct {
	major int
	mode  rig.Mode
	bin   pgbin.Installation
	out   io.Writer
	phase time.Duration // of traffic, before the kill and after it
	keep  bool          // leave the directory
	race  bool          // build slotferry with the race detector

	// cutOff takes the standby off the primary before the kill.
	cutOff bool

	found *result // where to leave the result; may be nil
}

// scene is all that runs.
type scene struct {
	*timeline
	config
	dir        string
	pair       *rig.Pair
	subscriber *cluster.Server
	traffic    *bank.Traffic
	consumer   *bank.Consumer
	result     result

	stopConsumer context.CancelFunc
	consuming    sync.WaitGroup
}

// run plays the whole story and returns errLoss when something is lost.
func (cfg config) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "slotferry-demo-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	// Servers run as another user when this is root.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	s := &scene{
		timeline: newTimeline(cfg.out), config: cfg, dir: dir,
		traffic: bank.NewTraffic(bank.TrafficConfig{Writers: writers, Seed: uint64(time.Now().UnixNano())}), consumer: bank.NewConsumer("postgres", consumerSlot),
		stopConsumer: func() {},
	}
	defer func() {
		err = errors.Join(err, s.close())
		switch {
		case cfg.keep, err != nil && ctx.Err() == nil:
			fmt.Fprintf(cfg.out, "\nLogs and data directories are in %s\n", dir)
		default:
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	return s.play(ctx)
}

// close ends everything that still runs.
func (s *scene) close() error {
	s.stopConsumer()
	s.consuming.Wait()
	var errs []error
	if s.subscriber != nil {
		errs = append(errs, s.subscriber.Close())
	}
	if s.pair != nil {
		errs = append(errs, s.pair.Close())
	}
	_ = s.traffic.Stop() // their servers are gone
	return errors.Join(errs...)
}

// consume starts the consumer on a server.
func (s *scene) consume(ctx context.Context, from *cluster.Server) {
	ctx, s.stopConsumer = context.WithCancel(ctx)
	s.consuming.Go(func() { s.consumer.Consume(ctx, from) })
}

// build puts the servers and slotferry together.
func (s *scene) build(ctx context.Context) error {
	s.say("PostgreSQL %s in %s", s.bin.Version, s.bin.BinDir)
	binary, err := rig.Build(ctx, s.dir, s.race)
	if err != nil {
		return err
	}
	s.say("slotferry is built")
	s.pair, err = rig.NewPair(ctx, rig.Config{
		Bin: s.bin, Binary: binary, Mode: s.mode, Dir: s.dir, Servers: s.dir,
	})
	if err != nil {
		return err
	}
	s.say("primary a on port %d, standby b on port %d, %s",
		s.pair.A.Server.Port(), s.pair.B.Server.Port(), topology[s.mode])
	s.subscriber, err = cluster.Start(ctx, cluster.Config{
		Bin: s.bin, Name: "subscriber", Dir: filepath.Join(s.dir, "subscriber"),
	})
	if err != nil {
		return err
	}
	s.say("subscriber on port %d, a primary of its own", s.subscriber.Port())
	return nil
}

var topology = map[rig.Mode]string{
	rig.Inline:  "b streams from a through relay and helper",
	rig.Sidecar: "b streams from a through the relay, the helper stands beside b",
	rig.Solo:    "b streams from a through relay and helper in one process",
}

// connect starts traffic, the subscription and the consumer, and waits until both
// slots are safe to fail over to.
func (s *scene) connect(ctx context.Context) error {
	a := s.pair.A.Server
	err := a.Exec(ctx, "postgres", bank.Schema, bank.Publish, s.traffic.Accounts(),
		fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", consumerSlot))
	if err != nil {
		return err
	}
	s.consume(ctx, a)
	err = s.subscriber.Exec(ctx, "postgres", bank.Schema, fmt.Sprintf(
		"CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION bank", subscriptionSlot, a.Conninfo("postgres")))
	if err != nil {
		return err
	}
	born := time.Now()
	s.say("CREATE SUBSCRIPTION %s; slot %s has a test_decoding consumer", subscriptionSlot, consumerSlot)
	for _, slot := range []string{consumerSlot, subscriptionSlot} {
		if err := s.pair.B.WaitReady(ctx, waitTime, slot); err != nil {
			return err
		}
	}
	s.result.readyAfter = time.Since(born)
	s.say("both slots are ready on b, %s after their birth", seconds(s.result.readyAfter))
	// Traffic begins when the tables are copied. A copy under traffic can miss a
	// transaction whose commit is in WAL and not yet in pg_xact when its snapshot is
	// built (SnapBuildInitialSnapshot, snapbuild.c): that would be a row lost before
	// the failover, by nobody's failover.
	err = poll.Until(ctx, waitTime, "the subscriber to have copied its tables", func(ctx context.Context) (bool, string) {
		left, err := cluster.QueryValue[int64](ctx, s.subscriber, "postgres",
			"SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'")
		return err == nil && left == 0, fmt.Sprintf("%d tables are not, %v", left, err)
	})
	if err != nil {
		return err
	}
	s.traffic.Start(ctx, a)
	s.say("%d writers on a: overlapping transactions, rollbacks, savepoints, long rows", writers)
	return nil
}

// let lets traffic go on for a phase, and makes sure that it does.
func (s *scene) let(ctx context.Context) error {
	before := s.traffic.Committed()
	timer := time.NewTimer(s.phase)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.traffic.Failed(); err != nil {
		return err
	}
	s.say("%d transactions are acknowledged", s.traffic.Committed())
	if s.traffic.Committed() == before {
		return errors.New("traffic stands still")
	}
	return nil
}

// report waits until the helper of b has finished with the promotion.
func (s *scene) report(ctx context.Context) (*decoder.PromotionReport, error) {
	var report *decoder.PromotionReport
	err := poll.Until(ctx, waitTime, "the promotion report", func(ctx context.Context) (bool, string) {
		st, err := s.pair.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		report = st.Promotion
		return report != nil && st.Role == decoder.RolePrimary, fmt.Sprintf("%s %s", st.Role, st.Reason)
	})
	return report, err
}

// positions reads where the slots of a server are.
func positions(ctx context.Context, s *cluster.Server) (map[string]protocol.LSN, error) {
	lines, err := cluster.QueryColumn[string](ctx, s, "postgres", `SELECT slot_name || ' ' || confirmed_flush_lsn
		FROM pg_replication_slots WHERE slot_type = 'logical' AND confirmed_flush_lsn IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	at := map[string]protocol.LSN{}
	for _, line := range lines {
		var slot, text string
		if _, err := fmt.Sscan(line, &slot, &text); err != nil {
			return nil, fmt.Errorf("read position %q: %w", line, err)
		}
		if at[slot], err = protocol.ParseLSN(text); err != nil {
			return nil, err
		}
	}
	return at, nil
}
