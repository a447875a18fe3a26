package main

import (
	"context"
	"time"

	"github.com/slotferry/slotferry/internal/procstat"
	"github.com/slotferry/slotferry/protocol"
)

// measure takes lag, CPU time and the delay of slot messages, window by window.
func (b *bench) measure(ctx context.Context, st *stage) error {
	s, err := b.newSampler(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	heard := make(chan error, 1)
	if err := b.listen(listening, heard); err != nil {
		return err
	}
	before, err := b.pair.A.Server.CurrentLSN(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for range b.windows {
		if err := b.measureWindow(ctx, s, st); err != nil {
			return err
		}
	}
	took := time.Since(began).Seconds()
	after, err := b.pair.A.Server.CurrentLSN(ctx)
	if err != nil {
		return err
	}
	st.WALRate = float64(after-before) / took
	stop()
	if err := <-heard; err != nil {
		return err
	}
	st.Messages = quantilesOf(b.confirmed.delays())
	st.LagMs.Slotferry, st.LagBytes.Slotferry = s.quantiles(func(p pairOf[protocol.LSN]) protocol.LSN { return p.Slotferry })
	st.LagMs.Worker, st.LagBytes.Worker = s.quantiles(func(p pairOf[protocol.LSN]) protocol.LSN { return p.Worker })
	st.Memory = procstat.RSS(b.pair.B.Helper.PID())
	return nil
}

// measureWindow takes one window. CPU time is a share of one core.
func (b *bench) measureWindow(ctx context.Context, s *sampler, st *stage) error {
	meters := []struct {
		pids func(context.Context) ([]int, error)
		to   *[]float64
	}{
		{b.both.Slotferry.processes, &st.CPU.Slotferry}, {b.both.Worker.processes, &st.CPU.Worker},
		{b.both.Slotferry.readers, &st.ReaderCPU.Slotferry}, {b.both.Worker.readers, &st.ReaderCPU.Worker},
		{func(context.Context) ([]int, error) { return []int{b.pair.A.Relay.PID()}, nil }, &st.RelayCPU},
		{func(ctx context.Context) ([]int, error) { return pidsOf(ctx, b.pair.B.Server, anchorSession) }, &st.Anchor.CPU},
	}
	read := func() (list []used, err error) {
		for _, m := range meters {
			pids, err := m.pids(ctx)
			if err != nil {
				return nil, err
			}
			list = append(list, useOf(pids))
		}
		return list, nil
	}
	began := time.Now()
	before, err := read()
	if err != nil {
		return err
	}
	if err := s.run(ctx, b.window); err != nil {
		return err
	}
	after, err := read()
	if err != nil {
		return err
	}
	took := time.Since(began)
	doc, err := b.pair.B.Status(ctx)
	if err != nil {
		return err
	}
	st.Anchor.Retained = max(st.Anchor.Retained, doc.Anchor.Retained)
	for i := range doc.Slots {
		st.Retained = max(st.Retained, doc.Slots[i].Retained)
	}
	for i, m := range meters {
		*m.to = append(*m.to, float64(after[i].since(before[i]))/float64(took))
	}
	return nil
}
