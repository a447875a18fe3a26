package main

import (
	"context"
	"fmt"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/poll"
)

// anchorFigures are what the anchor costs, and how it comes back.
type anchorFigures struct {
	CPU      []float64 `json:"cpu"`            // of its session, shares of one core, window by window
	Retained uint64    `json:"retained_bytes"` // most WAL that it kept while windows were measured

	// Its session is ended, as a recovery conflict does, while a prepared transaction
	// is open on the primary: a new one has to wait for that.
	SaysWaiting   float64 `json:"says_waiting_ms"` // until the helper named the transaction
	ReadyMeantime int     `json:"slots_ready_meantime"`
	AfterPrepared float64 `json:"after_prepared_ms"` // from the end of the transaction until there was one

	Renewal float64 `json:"renewal_ms"` // the same with no transaction open, from the end of the session on
}

const anchorSession = "application_name = 'slotferry helper' AND backend_type = 'walsender'"

// renewAnchor ends the anchor's session, with a prepared transaction open and
// without, and measures until there is another anchor, seen to be protected.
func (b *bench) renewAnchor(ctx context.Context, f *anchorFigures) error {
	primary := b.pair.A.Server
	err := primary.Exec(ctx, "postgres", "BEGIN", "CREATE TABLE held (n int)", "PREPARE TRANSACTION 'held'")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.endAnchor(ctx); err != nil {
		return err
	}
	err = b.untilStatus(ctx, "the open transaction to be named", func(st *decoder.Status) bool {
		f.ReadyMeantime = 0
		for i := range st.Slots {
			if st.Slots[i].State == decoder.StateReady {
				f.ReadyMeantime++
			}
		}
		return st.Anchor.Reason == decoder.ReasonWaitingTransaction
	})
	if err != nil {
		return err
	}
	f.SaysWaiting = milliseconds(time.Since(began))
	if err := primary.Exec(ctx, "postgres", "ROLLBACK PREPARED 'held'"); err != nil {
		return err
	}
	if f.AfterPrepared, err = b.untilAnchor(ctx); err != nil {
		return err
	}
	if err := b.endAnchor(ctx); err != nil {
		return err
	}
	f.Renewal, err = b.untilAnchor(ctx)
	return err
}

// endAnchor ends the anchor's session, and returns when the helper has noticed.
func (b *bench) endAnchor(ctx context.Context) error {
	err := b.pair.B.Server.Exec(ctx, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "+anchorSession)
	if err != nil {
		return err
	}
	return b.untilStatus(ctx, "the anchor to be missed", func(st *decoder.Status) bool { return !st.Anchor.Proven })
}

// untilAnchor measures until there is a protected anchor, in milliseconds.
func (b *bench) untilAnchor(ctx context.Context) (float64, error) {
	began := time.Now()
	err := b.untilStatus(ctx, "an anchor", func(st *decoder.Status) bool { return st.Anchor.Proven })
	return milliseconds(time.Since(began)), err
}

func (b *bench) untilStatus(ctx context.Context, what string, done func(*decoder.Status) bool) error {
	return poll.Until(ctx, readyTimeout, what, func(ctx context.Context) (bool, string) {
		st, err := b.pair.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		return done(st), fmt.Sprintf("anchor %+v", st.Anchor)
	})
}
