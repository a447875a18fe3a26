package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/protocol"
)

// sampleEvery is how often positions are read.
const sampleEvery = 50 * time.Millisecond

// sample is where a slot is at a moment: on the primary, which is read first, and on
// each standby.
type sample struct {
	at       time.Duration
	upstream protocol.LSN
	standby  pairOf[protocol.LSN] // InvalidLSN: no such slot
}

// lag is how far a standby's slot is behind.
type lag struct {
	age   time.Duration // since the subscriber was first seen beyond it
	bytes protocol.LSN
}

// lags says how far behind the slot of one standby is at each sample. A slot that is
// not behind has no lag, one that is not there counts as behind everything. The
// subscriber went beyond it between two samples: the middle is taken.
func lags(samples []sample, of func(pairOf[protocol.LSN]) protocol.LSN) []lag {
	list := make([]lag, len(samples))
	first := 0 // the first sample whose upstream position is beyond the standby's
	for i, s := range samples {
		local := of(s.standby)
		for first > 0 && samples[first-1].upstream > local { // it has gone back
			first--
		}
		for first <= i && samples[first].upstream <= local {
			first++
		}
		if first <= i {
			began := samples[first].at
			if first > 0 {
				began = (began + samples[first-1].at) / 2
			}
			list[i] = lag{age: s.at - began, bytes: s.upstream - local}
		}
	}
	return list
}

// sampler reads positions over a connection to each server.
type sampler struct {
	conns [3]*pgx.Conn // primary, slotferry's standby, the worker's
	began time.Time
	slots map[string][]sample
}

func (b *bench) newSampler(ctx context.Context) (s *sampler, err error) {
	s = &sampler{began: time.Now(), slots: map[string][]sample{}}
	for i, server := range []interface {
		Connect(context.Context, string) (*pgx.Conn, error)
	}{b.pair.A.Server, b.both.Slotferry.server, b.both.Worker.server} {
		if s.conns[i], err = server.Connect(ctx, "postgres"); err != nil {
			s.close(ctx)
			return nil, err
		}
	}
	return s, nil
}

func (s *sampler) close(ctx context.Context) {
	for _, conn := range s.conns {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}
}

// run takes samples until the end of a window.
func (s *sampler) run(ctx context.Context, window time.Duration) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for end := time.Now().Add(window); time.Now().Before(end); {
		if err := s.take(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (s *sampler) take(ctx context.Context) error {
	var positions [3]map[string]protocol.LSN
	at := time.Duration(0)
	for i, conn := range s.conns {
		var err error
		if positions[i], err = readPositions(ctx, conn); err != nil {
			return fmt.Errorf("read positions: %w", err)
		}
		if i == 0 {
			at = time.Since(s.began)
		}
	}
	for slot, upstream := range positions[0] {
		s.slots[slot] = append(s.slots[slot], sample{at, upstream, pairOf[protocol.LSN]{Slotferry: positions[1][slot], Worker: positions[2][slot]}})
	}
	return nil
}

func readPositions(ctx context.Context, conn *pgx.Conn) (map[string]protocol.LSN, error) {
	rows, err := conn.Query(ctx, "SELECT slot_name::text, confirmed_flush_lsn::text FROM pg_replication_slots WHERE confirmed_flush_lsn IS NOT NULL AND NOT temporary")
	if err != nil {
		return nil, err
	}
	positions := map[string]protocol.LSN{}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() (err error) {
		positions[name], err = protocol.ParseLSN(text)
		return err
	})
	return positions, err
}

// quantiles sums the lags of all slots up.
func (s *sampler) quantiles(of func(pairOf[protocol.LSN]) protocol.LSN) (age, bytes quantiles) {
	var ages, sizes []float64
	for _, samples := range s.slots {
		for _, l := range lags(samples, of) {
			ages, sizes = append(ages, milliseconds(l.age)), append(sizes, float64(l.bytes))
		}
	}
	return quantilesOf(ages), quantilesOf(sizes)
}
