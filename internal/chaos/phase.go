package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
)

// play plays one phase.
func (w *world) play(ctx context.Context, number int) error {
	p := w.schedule.Phases[number]
	standby := w.promoted(p.End)
	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watch.run(watching, standby) })
	defer func() { stopWatching(); watcher.Wait(); w.watch.reset() }()

	acts := w.begin(ctx, p)
	if p.Settled {
		acts.Wait()
		if err := w.ready(ctx); err != nil {
			return err
		}
	}
	var err error
	if p.End == Switchover {
		err = w.switchover(ctx, number, p)
	} else {
		err = w.failover(ctx, number, p, acts)
	}
	if err != nil {
		return err
	}
	acts.Wait()
	w.swap(standby)
	// What is held back needs a standby to come at all.
	if number+1 < len(w.schedule.Phases) || w.schedule.HoldBack {
		return w.rejoin(ctx, p)
	}
	return nil
}

// begin lets the acts of a phase happen, each at its time, and returns when the
// phase has lasted as long as it should; some acts may not be undone by then.
func (w *world) begin(ctx context.Context, p Phase) *sync.WaitGroup {
	began := time.Now()
	for _, a := range p.Acts {
		w.acts.Go(func() {
			pause(ctx, time.Until(began.Add(a.At)))
			if err := w.perform(ctx, a); err != nil && ctx.Err() == nil {
				w.say("%s %s did not work: %v", a.Kind, a.On, err)
			}
		})
	}
	pause(ctx, time.Until(began.Add(p.Length)))
	return &w.acts
}

// ready waits until every slot of the primary is ready on every standby.
func (w *world) ready(ctx context.Context) error {
	for _, standby := range w.standbys() {
		if err := w.readyOn(ctx, standby); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) readyOn(ctx context.Context, standby *rig.Node) error {
	primary, _ := w.roles()
	var first uint64
	return poll.Until(ctx, waitTime, "every slot to be ready on "+standby.Name, func(ctx context.Context) (bool, string) {
		there, err := cluster.QueryColumn[string](ctx, primary.Server, databases[0],
			"SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT temporary")
		if err != nil {
			return false, err.Error()
		}
		st, err := standby.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		if first == 0 {
			first = st.Upstream.MessageSequence
		}
		state := map[string]decoder.SlotStatusJSON{}
		for _, s := range st.Slots {
			state[s.Name] = s
		}
		for _, name := range there {
			if s := state[name]; s.State != decoder.StateReady || !s.Exists {
				return false, fmt.Sprintf("%s is %q %s %s; overall %q %s, anchor %+v", name, s.State, s.Reason, s.Detail, st.Reason, st.Detail, st.Anchor)
			}
		}
		// What it says may be of a moment before the last fault was over.
		if !st.Upstream.Fresh || st.Upstream.MessageSequence == first {
			return false, "slot state is not new"
		}
		w.watch.takeOf(standby, st) // the phase may end before the watch asks again
		return true, ""
	})
}

// failover kills the primary and promotes the standby.
func (w *world) failover(ctx context.Context, number int, p Phase, acts *sync.WaitGroup) error {
	primary, middle := w.roles()
	standby := w.promoted(p.End)
	w.say("kill -9 of %s", primary.Name)
	w.evidence.Failovers++
	w.serving.Store(nil)
	slots := w.moves(number)
	if err := primary.Server.Kill9(); err != nil {
		return err
	}
	if standby != middle {
		w.say("kill -9 of %s", middle.Name)
		if err := middle.Server.Kill9(); err != nil {
			return err
		}
	}
	w.turnTo(nil)
	// A standby that was stopped cannot be promoted, nor can anybody look at a
	// subscriber that was killed. All else may still be broken.
	if err := errors.Join(
		retry(ctx, func() error { return standby.Server.Promote(ctx) }),
		retry(ctx, func() error { return w.subscriber.Exec(ctx, databases[0], "SELECT 1") }),
	); err != nil {
		return err
	}
	w.say("%s is promoted", standby.Name)
	if err := w.account(ctx, standby.Server, Failover); err != nil {
		return err
	}
	if !p.Patient {
		return w.handOver(ctx, standby, slots, nil)
	}
	acts.Wait()
	report, err := w.report(ctx, standby, number)
	if err != nil {
		return err
	}
	return w.handOver(ctx, standby, slots, report)
}

// switchover stops the primary in order, promotes the standby, and makes the old
// primary its standby.
func (w *world) switchover(ctx context.Context, number int, p Phase) error {
	primary, standby := w.roles()
	if err := primary.Server.WaitForStreaming(ctx, standby.Name); err != nil {
		return err
	}
	w.say("%s is stopped in order", primary.Name)
	slots := w.moves(number)
	w.serving.Store(nil) // those who are connected stay so until it ends
	if err := primary.Server.Stop(ctx, cluster.Fast); err != nil {
		return err
	}
	w.turnTo(nil)
	if err := w.pair.Exchange(ctx, primary, standby); err != nil {
		return err
	}
	w.say("%s is promoted", standby.Name)
	if err := w.account(ctx, standby.Server, Switchover); err != nil {
		return err
	}
	if !p.Patient {
		return w.handOver(ctx, standby, slots, nil)
	}
	report, err := w.report(ctx, standby, number)
	if err != nil {
		return err
	}
	return w.handOver(ctx, standby, slots, report)
}

// report waits until the helper of the promoted standby has finished. Its report is
// nil when there was no slot, so that there is nothing to finish.
func (w *world) report(ctx context.Context, standby *rig.Node, phase int) (*decoder.PromotionReport, error) {
	var report *decoder.PromotionReport
	err := poll.Until(ctx, waitTime, "the promotion report", func(ctx context.Context) (bool, string) {
		st, err := standby.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		report = st.Promotion
		if report == nil && st.Role == decoder.RolePrimary && w.watch.nothing() {
			return true, ""
		}
		return report != nil && st.Role == decoder.RolePrimary && report.TimelineID == uint32(phase)+2,
			fmt.Sprintf("%s %s %s, %+v", st.Role, st.Reason, st.Detail, report)
	})
	return report, err
}

// rejoin makes the old primary the standby of the new one, anew after a failover,
// and waits until all is well.
func (w *world) rejoin(ctx context.Context, p Phase) error {
	primary, standby := w.roles()
	if p.End == Failover && !w.schedule.Cascade {
		if err := w.pair.Remake(ctx, standby, primary); err != nil {
			return err
		}
	}
	w.say("%s streams from %s", standby.Name, primary.Name)
	if err := w.dropAbandoned(ctx, primary.Server); err != nil {
		return err
	}
	return w.ready(ctx)
}

// retry tries until it works, or gives up.
func retry(ctx context.Context, try func() error) error {
	return poll.Until(ctx, waitTime, "what is done to work", func(context.Context) (bool, string) {
		err := try()
		return err == nil, fmt.Sprint(err)
	})
}
