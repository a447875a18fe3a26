package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
	"github.com/slotferry/slotferry/protocol"
)

// play is the story: build, kill, promote, repoint, prove.
func (s *scene) play(ctx context.Context) error {
	for _, act := range []func(context.Context) error{
		s.build, s.connect, s.let, s.kill, s.promote, s.passAhead, s.repoint, s.let, s.prove,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	s.result.major, s.result.mode = s.major, s.mode
	s.result.print(s.config.out)
	if s.found != nil {
		*s.found = s.result
	}
	if !s.result.good() {
		return errLoss
	}
	return nil
}

// kill ends the primary as a power cut does.
func (s *scene) kill(ctx context.Context) error {
	var err error
	if s.result.before, err = positions(ctx, s.pair.A.Server); err != nil {
		return err
	}
	if s.cutOff {
		if err := s.cut(ctx); err != nil {
			return err
		}
	}
	s.result.killed = time.Now()
	if err := s.pair.A.Server.Kill9(); err != nil {
		return err
	}
	if s.cutOff && s.mode == rig.Solo {
		if err := s.pair.B.Helper.Start(ctx); err != nil {
			return err
		}
	}
	s.say("kill -9 of a, with transactions open and others being committed")
	_ = s.traffic.Stop() // each writer has lost its server
	s.consuming.Wait()   // so has the consumer
	return nil
}

// cut takes the standby off the primary while traffic goes on: so the subscriber
// gets commits that the standby will never have.
func (s *scene) cut(ctx context.Context) error {
	wire := s.pair.A.Relay
	if wire == nil {
		wire = s.pair.B.Helper // solo
	}
	if err := wire.Kill9(); err != nil {
		return err
	}
	s.say("kill -9 of the relay: b gets nothing more, traffic goes on")
	return poll.Until(ctx, waitTime, "the subscriber to get ahead", func(ctx context.Context) (bool, string) {
		const count = "SELECT count(*) FROM journal"
		standby, err := cluster.QueryValue[int64](ctx, s.pair.B.Server, "postgres", count)
		subscriber, errSubscriber := cluster.QueryValue[int64](ctx, s.subscriber, "postgres", count)
		err = errors.Join(err, errSubscriber)
		return err == nil && subscriber > standby+100, fmt.Sprintf("subscriber has %d, b %d, %v", subscriber, standby, err)
	})
}

// promote makes b the primary. Only then is it known what it has of a's history.
func (s *scene) promote(ctx context.Context) error {
	b := s.pair.B.Server
	// What is on its way arrives: the walreceiver ends when its connection does.
	err := poll.Until(ctx, waitTime, "the walreceiver to notice", func(ctx context.Context) (bool, string) {
		n, err := cluster.QueryValue[int64](ctx, b, "postgres",
			"SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'")
		return err == nil && n == 0, fmt.Sprintf("%d, %v", n, err)
	})
	if err != nil {
		return err
	}
	if err := b.Promote(ctx); err != nil {
		return err
	}
	s.say("b is promoted")
	if s.result.report, err = s.report(ctx); err != nil {
		return err
	}
	s.say("its helper is done: %d slots on timeline %d, which began at %v",
		len(s.result.report.Slots), s.result.report.TimelineID, s.result.report.SwitchLSN)
	history, err := bank.ReadJournal(ctx, b, "postgres")
	if err != nil {
		return err
	}
	s.result.acked = s.traffic.Committed()
	ackedGone, doubtfulGone := s.traffic.Unreceived(history)
	s.result.ackedGone, s.result.doubtfulGone = len(ackedGone), doubtfulGone
	s.say("b has %d transactions; %d more had been acknowledged by a and never reached b", len(history), s.result.ackedGone)
	return nil
}

// passAhead looks whether the subscriber has got more of a's history than b. Its
// next position is then past the end of b's, and what b commits below it would
// never be sent. So b's WAL goes past it before anybody writes. The report knows
// what the last slot message said; the subscriber knows it exactly.
func (s *scene) passAhead(ctx context.Context) error {
	text, err := cluster.QueryValue[string](ctx, s.subscriber, "postgres", `SELECT coalesce(max(remote_lsn), '0/0')::text
		FROM pg_replication_origin_status o JOIN pg_subscription s ON o.external_id = 'pg_' || s.oid`)
	if err != nil {
		return err
	}
	if s.result.subscriberAt, err = protocol.ParseLSN(text); err != nil {
		return err
	}
	goal := s.result.subscriberAt
	for _, slot := range s.result.report.Slots {
		if slot.Ahead != nil {
			goal = max(goal, slot.Ahead.To)
		}
	}
	if goal <= s.result.report.SwitchLSN {
		return nil
	}
	s.say("the subscriber is ahead: it has a's WAL up to %v, b only up to %v. Moving b past that before anybody writes",
		goal, s.result.report.SwitchLSN)
	for {
		at, err := s.pair.B.Server.CurrentLSN(ctx)
		if err != nil || at > goal {
			return err
		}
		err = s.pair.B.Server.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot(), pg_switch_wal()")
		if err != nil {
			return err
		}
	}
}

// repoint sends subscriber, consumer and writers to b.
func (s *scene) repoint(ctx context.Context) error {
	b := s.pair.B.Server
	err := s.subscriber.Exec(ctx, "postgres",
		fmt.Sprintf("ALTER SUBSCRIPTION %s CONNECTION '%s'", subscriptionSlot, b.Conninfo("postgres")))
	if err != nil {
		return err
	}
	s.consume(ctx, b)
	s.traffic.Start(ctx, b)
	s.say("subscriber, consumer and writers go on with b")
	err = poll.Until(ctx, waitTime, "the subscriber to stream from b", func(ctx context.Context) (bool, string) {
		active, err := cluster.QueryValue[bool](ctx, b, "postgres",
			"SELECT bool_or(active AND slot_name = $1) FROM pg_replication_slots", subscriptionSlot)
		return err == nil && active, fmt.Sprint(err)
	})
	s.result.away = time.Since(s.result.killed)
	s.say("the subscriber streams from b, %s after the kill", seconds(s.result.away))
	return err
}

// prove stops traffic, waits until both have what there is, and compares.
func (s *scene) prove(ctx context.Context) error {
	if err := s.traffic.Stop(); err != nil {
		return err
	}
	b := s.pair.B.Server
	end, err := b.CurrentLSN(ctx)
	if err != nil {
		return err
	}
	err = poll.Until(ctx, waitTime, "subscriber and consumer to have all of b", func(ctx context.Context) (bool, string) {
		if s.consumer.Failed() != nil {
			return true, ""
		}
		var err error
		s.result.after, err = positions(ctx, b)
		return err == nil && s.result.after[subscriptionSlot] >= end && s.consumer.Position() >= end,
			fmt.Sprintf("subscriber at %v, consumer at %v, end at %v, %v",
				s.result.after[subscriptionSlot], s.consumer.Position(), end, err)
	})
	s.stopConsumer()
	s.consuming.Wait()
	if err := errors.Join(err, s.consumer.Failed()); err != nil {
		return err
	}
	s.say("traffic has ended, subscriber and consumer are at %v", end)
	return s.compare(ctx)
}

func (s *scene) compare(ctx context.Context) error {
	b := s.pair.B.Server
	history, err := bank.ReadJournal(ctx, b, "postgres")
	if err != nil {
		return err
	}
	seen, err := bank.ReadJournal(ctx, s.subscriber, "postgres")
	if err != nil {
		return err
	}
	primary, err := bank.ReadContents(ctx, b, "postgres")
	if err != nil {
		return err
	}
	subscriber, err := bank.ReadContents(ctx, s.subscriber, "postgres")
	if err != nil {
		return err
	}
	r := &s.result
	r.rowsPrimary, r.rowsSubscriber = len(primary), len(subscriber)
	r.transactions, r.changes = len(history), history.Size()
	aheadOf := seen.Without(history)
	r.ahead = len(aheadOf)
	r.differences = bank.Compare(primary, subscriber, aheadOf.Rows())
	r.unseen = s.consumer.Got().Unseen(history)
	r.consumed, r.duplicates = len(s.consumer.Got()), s.consumer.Got().Duplicates()
	s.say("all rows of both are compared")
	return nil
}
