package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/rig"
)

// guard is a piece of a source file, named by its path in this module, and what is
// there without the guard.
type guard struct{ file, with, without string }

// unguarded returns the texts of files without some guards. A guard
// that is not there exactly once is an error: the code has changed, and this test
// has to follow.
func unguarded(t *testing.T, guards []guard) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, g := range guards {
		path, err := filepath.Abs(filepath.Join("../..", g.file))
		if err != nil {
			t.Fatal(err)
		}
		text, seen := texts[path]
		if !seen {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, g.with); n != 1 {
			t.Fatalf("%s has %q %d times, want it once", g.file, g.with, n)
		}
		texts[path] = strings.Replace(text, g.with, g.without, 1)
	}
	return texts
}

// scene is a world that a test moves by hand.
type scene struct {
	*world
	t *testing.T
}

// newScene builds a world with one test_decoding consumer, audit.
func newScene(t *testing.T, mode rig.Mode, holdBack bool, binary string) *scene {
	t.Helper()
	major := slices.Max(clustertest.Majors(t))
	w := newWorld(Schedule{Seed: 1, Major: major, Mode: mode, HoldBack: holdBack,
		Consumers: []Consumer{{Name: "audit", Database: databases[0], Plugin: testDecoding}}}, roundConfig(t, major, binary))
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	s := &scene{w, t}
	s.must(w.build(t.Context()))
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// until waits for something in the standby's status.
func (s *scene) until(what string, check func(*decoder.Status) (bool, string)) {
	s.t.Helper()
	_, standby := s.roles()
	poll.Require(s.t, waitTime, what, func(ctx context.Context) (bool, string) {
		st, err := standby.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		return check(st)
	})
}

func slotOf(st *decoder.Status, name string) decoder.SlotStatusJSON {
	for _, slot := range st.Slots {
		if slot.Name == name {
			return slot
		}
	}
	return decoder.SlotStatusJSON{}
}

// untilAhead waits until a consumer has confirmed what the standby has not received.
func (s *scene) untilAhead(slot string) {
	s.t.Helper()
	s.until(slot+" to be ahead of the standby", func(st *decoder.Status) (bool, string) {
		it := slotOf(st, slot)
		return it.Upstream > st.Standby.ReceiveLSN+(64<<10), fmt.Sprintf("%+v, received %v", it, st.Standby.ReceiveLSN)
	})
}

// judge ends the scene after its failover.
func (s *scene) judge() Verdict {
	s.t.Helper()
	s.swap(s.standby)
	s.must(s.gather(s.t.Context()))
	v := Judge(&s.evidence)
	s.t.Log(v.String())
	return v
}

// mustHaveLost ends the scene: the consumer of slot must be found to have lost
// something.
func (s *scene) mustHaveLost(slot string) {
	s.t.Helper()
	v := s.judge()
	if !slices.ContainsFunc(v.Lost, func(line string) bool { return strings.HasPrefix(line, slot+" never got") }) {
		s.t.Errorf("%s has lost nothing: either there is another guard, or the checker is blind", slot)
	}
}

// A helper that keeps a slot under its real name although its subscriber has not
// passed the slot's birth (I-1, I-2, I-4) loses rows, and the checker sees it.
func TestCheckerSeesPendingSlotsUnderTheirRealName(t *testing.T) {
	t.Parallel()
	s := newScene(t, rig.Inline, false, build(t, "pending", unguarded(t, []guard{
		{"decoder/judge_missing.go", "case u.ConfirmedFlushLSN < v.Anchor.Position: // I-2", "case false:"},
		{"decoder/judge_owned.go", "case l.ConfirmedFlushLSN > u.ConfirmedFlushLSN: // I-4", "case false:"},
		{"decoder/steps.go", "if replay < step.Target || step.Upstream < step.Target {", "if replay < step.Target {"},
		{"decoder/steps.go", "l.ConfirmedFlushLSN == 0 || l.ConfirmedFlushLSN > step.Upstream {", "l.ConfirmedFlushLSN == 0 {"},
		{"decoder/promotion_plan.go", "case t.Consumed: // seen in recovery", "case false: // seen in recovery"},
		{"decoder/promotion_plan.go", "if !l.Active && l.ConfirmedFlushLSN <= v.History.LastSwitch() {", "if false {"},
	})))
	ctx := t.Context()
	_, standby := s.roles()
	s.must(standby.Helper.Kill9())
	s.must(s.bear(ctx, databases[0], "late"))
	s.stream("late").hold(true)
	before := s.traffic[databases[0]].Committed()
	poll.Require(t, waitTime, "transactions that late does not consume", func(context.Context) (bool, string) {
		n := s.traffic[databases[0]].Committed()
		return n > before+20, fmt.Sprint(n - before)
	})
	s.must(standby.Helper.Start(ctx))
	s.until("late to be called ready", func(st *decoder.Status) (bool, string) {
		slot := slotOf(st, "late")
		return slot.State == decoder.StateReady, fmt.Sprintf("%+v, anchor %+v", slot, st.Anchor)
	})
	s.must(s.failover(ctx, 0, Phase{End: Failover}, nil))
	s.stream("late").hold(false)
	s.mustHaveLost("late")
}

// A helper that moves a slot to its subscriber's position after a promotion, past
// where the new timeline begins (I-5, I-7), skips what the new primary has
// committed, and the checker sees it.
func TestCheckerSeesAdvancePastTheSwitch(t *testing.T) {
	t.Parallel()
	s := newScene(t, rig.Sidecar, false, build(t, "past", unguarded(t, []guard{
		{"decoder/promotion_plan.go", "p.Target = min(t.Confirmed, end) // I-5", "p.Target = t.Confirmed // I-5"},
	})))
	ctx := t.Context()
	primary, standby := s.roles()
	leg, err := s.legs.of(string(rig.LegWALReceiver), rig.Sidecar, primary, standby)
	s.must(err)
	leg.Stall(faultproxy.Down) // the standby gets no more WAL, its helper still gets slot messages
	s.untilAhead("audit")
	ahead := s.stream("audit").consumer.Position()
	s.must(standby.Helper.Pause())
	s.stream("audit").hold(true)
	s.must(s.failover(ctx, 0, Phase{End: Failover}, nil))
	poll.Require(t, waitTime, "the new primary to pass audit", func(ctx context.Context) (bool, string) {
		at, err := standby.Server.CurrentLSN(ctx)
		return err == nil && at > ahead, fmt.Sprintf("at %v, audit at %v, %v", at, ahead, err)
	})
	s.must(standby.Helper.Resume())
	_, err = s.report(ctx, standby, 0)
	s.must(err)
	s.stream("audit").hold(false)
	s.mustHaveLost("audit")
}

// A relay whose hold-back lets everything pass leaves a consumer ahead of the new
// primary, and the checker sees it.
func TestCheckerSeesWhatIsNotHeldBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, rig.Sidecar, true, build(t, "passes", unguarded(t, []guard{
		{"relay/holdback.go", "case at <= d.Position:", "case true:"},
	})))
	leg, err := s.legs.of(string(rig.LegWALReceiver), rig.Sidecar, s.primary, s.standby)
	s.must(err)
	leg.Stall(faultproxy.Down)
	s.untilAhead("audit")
	s.must(s.failover(t.Context(), 0, Phase{End: Failover}, nil))
	if v := s.judge(); !slices.ContainsFunc(v.Extra, func(line string) bool { return strings.HasPrefix(line, "audit got transaction") }) {
		t.Error("audit has nothing too many: either there is another guard, or the checker is blind")
	}
}
