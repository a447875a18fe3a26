package chaos

import (
	"context"
	"fmt"

	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
)

// gather stops traffic, waits until every consumer has what there is, and collects
// the evidence.
func (w *world) gather(ctx context.Context) error {
	primary, _ := w.roles()
	for _, t := range w.traffic {
		if err := t.Stop(); err != nil {
			return err
		}
		if err := t.EndPrepared(ctx, primary.Server, func(int64) bool { return false }); err != nil {
			return err
		}
	}
	w.say("traffic has stopped")
	if err := w.drained(ctx, primary.Server); err != nil {
		return err
	}
	e := &w.evidence
	e.HeldBack = w.schedule.HoldBack
	e.Outcome = func(database string, n int64) bank.Outcome { return w.traffic[database].Outcome(n) }
	e.History = map[string]bank.Journal{}
	for _, database := range databases {
		var err error
		if e.History[database], err = bank.ReadJournal(ctx, primary.Server, database); err != nil {
			return err
		}
	}
	for name, s := range w.streams {
		s.stop()
		e.Streams = append(e.Streams, Stream{
			Slot: name, Database: s.database, From: s.from, Dropped: s.dropped, Refused: s.words(), Got: s.consumer.Got(),
		})
	}
	for _, c := range w.schedule.Consumers {
		if c.Plugin == pgoutput {
			if err := w.compare(ctx, primary.Server, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// drained waits until every consumer whose slot is there has got all.
func (w *world) drained(ctx context.Context, s *cluster.Server) error {
	end, err := s.CurrentLSN(ctx)
	if err != nil {
		return err
	}
	return poll.Until(ctx, waitTime, "every consumer to have all", func(ctx context.Context) (bool, string) {
		at, err := positions(ctx, s)
		if err != nil {
			return false, err.Error()
		}
		for name, lsn := range at {
			if lsn < end && !w.abandoned(name) {
				return false, fmt.Sprintf("%s is at %v, the end is %v", name, lsn, end)
			}
		}
		return true, ""
	})
}

// abandoned reports whether a slot is on the last primary without a consumer.
func (w *world) abandoned(slot string) bool {
	if s := w.stream(slot); s != nil {
		return s.ended()
	}
	for _, c := range w.schedule.Consumers {
		if c.Name == slot {
			return false
		}
	}
	return true
}

// compare compares every row of a subscription with the primary's.
func (w *world) compare(ctx context.Context, primary *cluster.Server, c Consumer) error {
	s := Subscription{Slot: c.Name, Database: c.Database}
	at, err := positions(ctx, primary)
	if err != nil {
		return err
	}
	if at[c.Name] == 0 {
		s.Refused = "there is no such slot"
	}
	if s.Journal, err = bank.ReadJournal(ctx, w.subscriber, c.Database); err != nil {
		return err
	}
	ours, err := bank.ReadContents(ctx, w.subscriber, c.Database)
	if err != nil {
		return err
	}
	theirs, err := bank.ReadContents(ctx, primary, c.Database)
	if err != nil {
		return err
	}
	s.Differences = bank.Compare(theirs, ours, s.Journal.Without(w.evidence.History[c.Database]).Rows())
	w.evidence.Subscriptions = append(w.evidence.Subscriptions, s)
	return nil
}
