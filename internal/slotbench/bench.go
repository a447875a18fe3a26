package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
)

// maxSlots bounds what the servers are set up for.
const maxSlots = 200

// readyTimeout bounds the wait for slots to be ready. The worker's naps grow to 30 s.
const readyTimeout = 45 * time.Second

// bench is one stage: a number of slots on servers of its own.
type bench struct {
	settings
	slots   int
	bin     pgbin.Installation
	pgbench string
	dir     string // must not exist; gone with the run's

	pair        *rig.Pair
	peer        *cluster.Server // the worker's standby
	both        pairOf[*contestant]
	subscribers []*subscriber
	before      map[int64]bool // rows that were there when all slots were: they may not be sent
	confirmed   confirmations
}

// run measures the stage.
func (b *bench) run(ctx context.Context) (st *stage, err error) {
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	l, err := b.startLoad(ctx)
	if err != nil {
		return nil, err
	}
	defer l.end()
	st = &stage{Slots: b.slots, LoadBefore: loadAverage()}
	if st.AllReady, err = b.makeSlots(ctx); err != nil {
		return nil, err
	}
	defer b.endSubscribers()
	if err := b.measure(ctx, st); err != nil {
		return nil, err
	}
	if b.births > 0 && b.slots == b.birthsAt {
		if st.Births, err = b.bornOneByOne(ctx); err != nil {
			return nil, err
		}
		if err := b.renewAnchor(ctx, &st.Anchor); err != nil {
			return nil, err
		}
	}
	st.Failover, err = b.failOver(ctx, l)
	st.LoadAfter = loadAverage()
	return st, err
}

// open starts the servers, and waits until both contestants are ready to begin:
// the helper has a protected anchor, the worker has logged in.
func (b *bench) open(ctx context.Context) (err error) {
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return err
	}
	b.pair, err = rig.NewPair(ctx, rig.Config{
		Bin: b.bin, Binary: b.binary, Mode: b.mode, Dir: b.dir, Settings: map[string]string{
			"max_connections": "400", "max_wal_senders": "250", "max_replication_slots": "450",
			"log_replication_commands": "off", "log_min_messages": "fatal", "shared_buffers": "64MB",
			"checkpoint_timeout": "1h", "max_wal_size": "8GB",
		}})
	if err != nil {
		return err
	}
	primary := b.pair.A.Server
	b.peer, err = primary.Standby(ctx, cluster.StandbyConfig{
		Name: "peer", SlotName: "peer", PrimaryConninfo: primary.ReplicationConninfo("peer") + " dbname=postgres",
		Settings: map[string]string{"sync_replication_slots": "on"},
	})
	if err != nil {
		return err
	}
	b.both = pairOf[*contestant]{Slotferry: b.ferry(), Worker: b.worker()}
	if err := b.prepareLoad(ctx); err != nil {
		return err
	}
	return poll.Until(ctx, readyTimeout, "an anchor and a slot sync worker", func(ctx context.Context) (bool, string) {
		doc, err := b.pair.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		workers, err := b.both.Worker.processes(ctx)
		return err == nil && len(workers) > 0 && doc.Anchor.Proven, fmt.Sprintf("anchor %+v, workers %v, error %v", doc.Anchor, workers, err)
	})
}

// close ends all that the stage has started.
func (b *bench) close() error {
	var errs []error
	if b.peer != nil {
		errs = append(errs, b.peer.Close())
	}
	if b.pair != nil {
		errs = append(errs, b.pair.Close())
	}
	return errors.Join(errs...)
}

// each runs f for each contestant at the same time.
func (b *bench) each(f func(c *contestant) error) error {
	other := make(chan error, 1)
	go func() { other <- f(b.both.Worker) }()
	return errors.Join(f(b.both.Slotferry), <-other)
}
