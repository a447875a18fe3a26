package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/faultproxy"
)

// perform does an act, and undoes it after its hold. An act that cannot be done
// since what it is about was broken by an earlier one is no fault of anybody:
// it is said, and the round goes on.
func (w *world) perform(ctx context.Context, a Act) error {
	w.say("%s", a)
	undo, err := w.do(ctx, a)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Kind, err)
	}
	if undo == nil {
		return nil
	}
	pause(ctx, a.Hold)
	if err := undo(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("undo %s: %w", a.Kind, err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// do does an act and returns what undoes it.
func (w *world) do(ctx context.Context, a Act) (undo func(context.Context) error, err error) {
	primary, standby := w.roles()
	exec := func(s *cluster.Server, sql ...string) error { return s.Exec(ctx, databases[0], sql...) }
	switch a.Kind {
	case Kill:
		return w.kill(a.On)
	case Pause:
		return w.pause(ctx, a.On)
	case Restart:
		w.watch.forget()
		return nil, standby.Server.Restart(ctx, cluster.Fast)
	case Cut, Blackhole, StallUp, StallDown:
		return w.harm(a)
	case FillDisk:
		d := w.disks[standby.Name]
		if d == nil {
			return nil, errors.New("SKIPPED: the state directory has no file system of its own")
		}
		return func(context.Context) error { return d.empty() }, d.fill()
	case MoveClock:
		if !w.cfg.Clock {
			return nil, errors.New("SKIPPED: the binary's clock cannot be moved")
		}
		p := standby.Helper
		if a.On == Relay {
			p = primary.Relay
		}
		return nil, moveClock(w.cfg.Binary, p.PID(), a.Amount)
	case NoFeedback:
		return func(ctx context.Context) error { return standby.Server.SetConf(ctx, "hot_standby_feedback", "on") },
			standby.Server.SetConf(ctx, "hot_standby_feedback", "off")
	case PauseReplay:
		return func(ctx context.Context) error {
			return standby.Server.Exec(ctx, databases[0], "SELECT pg_wal_replay_resume()")
		}, exec(standby.Server, "SELECT pg_wal_replay_pause()")
	case EndSessions:
		return nil, exec(standby.Server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name LIKE 'slotferry%' AND pid <> pg_backend_pid()`)
	case EndReceiver:
		return nil, exec(standby.Server, "SELECT pg_terminate_backend(pid) FROM pg_stat_wal_receiver")
	case HoldConsumer:
		return w.holdConsumer(ctx, a.On)
	case BearSlot:
		return nil, w.bear(ctx, databases[0], a.On)
	case DropSlot:
		return nil, w.dropBorn(ctx, a.On)
	case RenewSlot:
		if err := w.dropBorn(ctx, a.On); err != nil {
			return nil, err
		}
		return nil, w.bear(ctx, databases[0], a.On)
	case RewriteAll:
		return nil, exec(primary.Server, "VACUUM FULL pg_class", "VACUUM FULL pg_attribute", "VACUUM FULL account", "CHECKPOINT")
	}
	return nil, fmt.Errorf("nobody knows how to do %q", a.Kind)
}

func (w *world) kill(what string) (undo func(context.Context) error, err error) {
	primary, standby := w.roles()
	switch what {
	case Helper:
		defer w.watch.forget()
		return standby.Helper.Start, standby.Helper.Kill9()
	case Relay:
		return primary.Relay.Start, primary.Relay.Kill9()
	case Standby:
		defer w.watch.forget()
		return standby.Server.Start, standby.Server.Kill9()
	case Primary:
		return func(ctx context.Context) error {
			if w.serving.Load() != primary.Server {
				return nil // its time is over
			}
			return primary.Server.Start(ctx)
		}, primary.Server.Kill9()
	case Subscriber:
		return w.subscriber.Start, w.subscriber.Kill9()
	case LastHelper:
		defer w.watch.forget()
		return w.pair.C.Helper.Start, w.pair.C.Helper.Kill9()
	case LastStandby:
		defer w.watch.forget()
		return w.pair.C.Server.Start, w.pair.C.Server.Kill9()
	}
	return nil, fmt.Errorf("there is no %s to kill", what)
}

func (w *world) pause(ctx context.Context, what string) (undo func(context.Context) error, err error) {
	primary, standby := w.roles()
	switch what {
	case Helper:
		return func(context.Context) error { return standby.Helper.Resume() }, standby.Helper.Pause()
	case Relay:
		return func(context.Context) error { return primary.Relay.Resume() }, primary.Relay.Pause()
	case Standby:
		return func(context.Context) error { return standby.Server.Resume() }, standby.Server.Pause(ctx)
	case Primary:
		return func(context.Context) error { return primary.Server.Resume() }, primary.Server.Pause(ctx)
	case LastHelper:
		return func(context.Context) error { return w.pair.C.Helper.Resume() }, w.pair.C.Helper.Pause()
	case LastStandby:
		return func(context.Context) error { return w.pair.C.Server.Resume() }, w.pair.C.Server.Pause(ctx)
	}
	return nil, fmt.Errorf("there is no %s to stop", what)
}

// harm does something to a leg.
func (w *world) harm(a Act) (undo func(context.Context) error, err error) {
	primary, standby := w.roles()
	p, err := w.legs.of(a.On, w.schedule.Mode, primary, standby)
	if err != nil {
		return nil, err
	}
	switch a.Kind {
	case Blackhole:
		p.Blackhole(true)
		p.Cut()
		return func(context.Context) error {
			p.Blackhole(w.serving.Load() == nil && p == w.legs.subscriber)
			p.Cut()
			return nil
		}, nil
	case StallUp, StallDown:
		direction := faultproxy.Up
		if a.Kind == StallDown {
			direction = faultproxy.Down
		}
		p.Stall(direction)
		return func(context.Context) error { p.Resume(direction); return nil }, nil
	}
	p.Cut()
	return nil, nil
}

// holdConsumer keeps a consumer, or a subscription, from going on.
func (w *world) holdConsumer(ctx context.Context, name string) (undo func(context.Context) error, err error) {
	if s := w.stream(name); s != nil {
		s.hold(true)
		return func(context.Context) error { s.hold(false); return nil }, nil
	}
	for _, c := range w.schedule.Consumers {
		if c.Name == name {
			return func(ctx context.Context) error {
				return retry(ctx, func() error {
					return w.subscriber.Exec(ctx, c.Database, fmt.Sprintf("ALTER SUBSCRIPTION %s ENABLE", name))
				})
			}, w.subscriber.Exec(ctx, c.Database, fmt.Sprintf("ALTER SUBSCRIPTION %s DISABLE", name))
		}
	}
	return nil, fmt.Errorf("there is no consumer %s", name)
}

// dropBorn drops a slot that was born in the round, with its consumer. What that
// got is not judged: it need not get anything any more.
func (w *world) dropBorn(ctx context.Context, slot string) error {
	s := w.stream(slot)
	if s == nil {
		return fmt.Errorf("slot %s was never born", slot)
	}
	s.drop()
	primary, _ := w.roles()
	// Its walsender may not have noticed yet. When the primary dies meanwhile, the next
	// one may have the slot: dropAbandoned.
	return retry(ctx, func() error {
		if w.serving.Load() != primary.Server {
			return nil
		}
		return dropSlot(ctx, primary.Server, s.database, slot)
	})
}

// dropSlot drops a slot if it is there.
func dropSlot(ctx context.Context, s *cluster.Server, database, slot string) error {
	return s.Exec(ctx, database, fmt.Sprintf(
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '%s'", slot))
}

// dropAbandoned drops what a primary has kept of slots that were dropped a moment
// before the one before it died: nobody consumes them, so they can never be ready.
func (w *world) dropAbandoned(ctx context.Context, s *cluster.Server) error {
	at, err := positions(ctx, s)
	if err != nil {
		return err
	}
	for slot := range at {
		if owner := w.stream(slot); owner != nil && owner.ended() {
			if err := dropSlot(ctx, s, owner.database, slot); err != nil {
				return err
			}
		}
	}
	return nil
}
