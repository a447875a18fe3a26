package main

import (
	"context"
	"fmt"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
)

// watchEvery is how often a contestant is asked which slots are ready.
const watchEvery = 10 * time.Millisecond

// watch notes when slots are first seen ready by a contestant, until all that are
// wanted are, or ctx ends. A contestant that cannot be asked for a moment has not
// said so.
func watch(ctx context.Context, c *contestant, wanted int) map[string]time.Time {
	seen := map[string]time.Time{}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for len(seen) < wanted {
		names, err := c.ready(ctx)
		now := time.Now()
		for _, name := range names {
			if _, had := seen[name]; !had && err == nil {
				seen[name] = now
			}
		}
		select {
		case <-ctx.Done():
			return seen
		case <-tick.C:
		}
	}
	return seen
}

// watchBoth watches both contestants; the result is there when done returns.
func (b *bench) watchBoth(ctx context.Context, wanted int) (done func() pairOf[map[string]time.Time]) {
	ferry, worker := make(chan map[string]time.Time, 1), make(chan map[string]time.Time, 1)
	go func() { ferry <- watch(ctx, b.both.Slotferry, wanted) }()
	go func() { worker <- watch(ctx, b.both.Worker, wanted) }()
	return func() pairOf[map[string]time.Time] {
		return pairOf[map[string]time.Time]{Slotferry: <-ferry, Worker: <-worker}
	}
}

// makeSlots creates the stage's slots and their subscribers, and measures from the
// end of the last creation until all are ready, in milliseconds.
func (b *bench) makeSlots(ctx context.Context) (took pairOf[float64], err error) {
	conn, err := b.pair.A.Server.ConnectReplication(ctx, "postgres")
	if err != nil {
		return took, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	within, cancel := context.WithTimeout(ctx, 2*readyTimeout)
	defer cancel()
	done := b.watchBoth(within, b.slots)
	var last time.Time
	for i := range b.slots {
		sub := &subscriber{slot: fmt.Sprintf("slot_%d", i), rows: map[int64]bool{}}
		if err := createSlot(ctx, conn, sub.slot); err != nil {
			return took, err
		}
		last = time.Now()
		if err := sub.start(ctx, b.pair.A.Server, b.confirmed.note); err != nil {
			return took, err
		}
		b.subscribers = append(b.subscribers, sub)
	}
	if b.before, err = rowsOf(ctx, b.pair.A.Server); err != nil {
		return took, err
	}
	seen := done()
	took.Slotferry, err = allReady(seen.Slotferry, b.slots, last)
	if err != nil {
		return took, fmt.Errorf("slotferry: %w", err)
	}
	took.Worker, err = allReady(seen.Worker, b.slots, last)
	if err != nil {
		return took, fmt.Errorf("slot sync worker: %w", err)
	}
	return took, nil
}

// allReady is when the last of all slots was ready.
func allReady(seen map[string]time.Time, slots int, since time.Time) (float64, error) {
	if len(seen) < slots {
		return 0, fmt.Errorf("%d of %d slots are ready after %s", len(seen), slots, time.Since(since).Round(time.Second))
	}
	latest := since
	for _, at := range seen {
		if at.After(latest) {
			latest = at
		}
	}
	return milliseconds(latest.Sub(since)), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// endSubscribers ends those that still stream, and returns when all have ended.
func (b *bench) endSubscribers() {
	for _, s := range b.subscribers {
		s.stop()
		<-s.ended
	}
}

// bornOneByOne creates slots one after another, and measures from the return of each
// creation until the slot is ready. A slot that is not within the bound counts as
// ready then, and is told of. Its subscriber confirms at once, and again until both
// have it: the worker waits for that.
func (b *bench) bornOneByOne(ctx context.Context) (*pairOf[births], error) {
	conn, err := b.pair.A.Server.ConnectReplication(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	done := b.watchBoth(within, b.slots+b.births)
	confirming, stop := context.WithCancel(ctx)
	confirmed := make(chan error, 1)
	go func() { confirmed <- b.confirmBirths(confirming) }()
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	born := map[string]time.Time{}
	for i := range b.births {
		slot := fmt.Sprintf("birth_%d", i)
		if err := createSlot(ctx, conn, slot); err != nil {
			stop()
			return nil, err
		}
		born[slot] = time.Now()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	bound := time.AfterFunc(readyTimeout, cancel)
	defer bound.Stop()
	seen := done()
	end := time.Now()
	stop()
	if err := <-confirmed; err != nil {
		return nil, err
	}
	return &pairOf[births]{Slotferry: birthsOf(born, seen.Slotferry, end), Worker: birthsOf(born, seen.Worker, end)}, b.dropBirths(ctx)
}

// confirmBirths lets the slots of births move on, as subscribers with nothing to do do.
func (b *bench) confirmBirths(ctx context.Context) error {
	for {
		err := b.pair.A.Server.Exec(ctx, "postgres", `SELECT pg_replication_slot_advance(slot_name, pg_current_wal_flush_lsn())
			FROM pg_replication_slots WHERE slot_name LIKE 'birth%' AND NOT active AND confirmed_flush_lsn < pg_current_wal_flush_lsn()`)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("confirm: %w", err)
		}
		timer := time.NewTimer(confirmEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// dropBirths drops them again, and waits until both standbys have.
func (b *bench) dropBirths(ctx context.Context) error {
	err := b.pair.A.Server.Exec(ctx, "postgres", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'birth%'")
	if err != nil {
		return err
	}
	return b.each(func(c *contestant) error {
		return poll.Until(ctx, readyTimeout, "births to be dropped", func(ctx context.Context) (bool, string) {
			names, err := c.ready(ctx)
			return err == nil && len(names) <= b.slots, fmt.Sprint(len(names), err)
		})
	})
}
