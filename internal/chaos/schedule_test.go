package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/rig"
)

var allMajors = []int{16, 17, 18}

// The same seed makes the same schedule, and another seed another one.
func TestScheduleIsAFunctionOfItsSeed(t *testing.T) {
	seen := map[string]uint64{}
	for seed := range uint64(300) {
		for _, short := range []bool{false, true} {
			limits := Limits{Majors: allMajors, Short: short}
			s, again := NewSchedule(seed, limits), NewSchedule(seed, limits)
			if fmt.Sprintf("%#v", s) != fmt.Sprintf("%#v", again) {
				t.Fatalf("seed %d made\n%s\nand then\n%s", seed, s.String(), again.String())
			}
			_, acts, _ := strings.Cut(s.String(), "\n")
			if other, dup := seen[acts]; dup {
				t.Errorf("seeds %d and %d made the same schedule", other, seed)
			}
			seen[acts] = seed
		}
	}
}

// Few seeds are enough for every major in every mode, every kind of act and every
// way to end.
func TestSchedulesTryEverything(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		s := NewSchedule(seed, Limits{Majors: allMajors})
		seen[fmt.Sprintf("%d %s", s.Major, s.Mode)] = true
		seen[fmt.Sprintf("%s held back %t", s.Mode, s.HoldBack)] = true
		if s.Cascade {
			seen[fmt.Sprintf("%s cascade", s.Mode)] = true
			seen[fmt.Sprintf("cascade of %d, %s", len(s.Phases), s.Phases[0].End)] = true
		}
		for _, p := range s.Phases {
			seen[fmt.Sprintf("%s settled %t patient %t", p.End, p.Settled, p.Patient)] = true
			for _, a := range p.Acts {
				seen[string(a.Kind)] = true
				seen[fmt.Sprintf("%s %s", a.Kind, a.On)] = true
			}
		}
	}
	want := []string{
		"failover settled true patient true", "failover settled false patient true", "failover settled false patient false",
		"switchover settled true patient true", "switchover settled true patient false",
	}
	for _, major := range allMajors {
		for _, mode := range []rig.Mode{rig.Inline, rig.Sidecar, rig.Solo} {
			want = append(want, fmt.Sprintf("%d %s", major, mode), fmt.Sprintf("%s held back true", mode), fmt.Sprintf("%s held back false", mode))
		}
	}
	for _, kind := range []Kind{
		Kill, Pause, Restart, Cut, Blackhole, StallUp, StallDown, FillDisk, MoveClock, NoFeedback, PauseReplay, EndSessions,
		EndReceiver, HoldConsumer, BearSlot, DropSlot, RenewSlot, RewriteAll,
	} {
		want = append(want, string(kind))
	}
	for _, mode := range []rig.Mode{rig.Inline, rig.Sidecar, rig.Solo} {
		want = append(want, fmt.Sprintf("%s cascade", mode))
	}
	want = append(want, "cascade of 1, failover", "cascade of 2, failover", "cascade of 1, failover to the last")
	for _, on := range []string{Helper, Relay, Primary, Standby, LastHelper, LastStandby} {
		want = append(want, fmt.Sprintf("%s %s", Kill, on), fmt.Sprintf("%s %s", Pause, on))
	}
	for _, leg := range []rig.Leg{rig.LegWALReceiver, rig.LegRelay, rig.LegUpstream, rig.LegStandby, LegSubscriber} {
		for _, kind := range []Kind{Cut, Blackhole, StallUp, StallDown} {
			want = append(want, fmt.Sprintf("%s %s", kind, leg))
		}
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("200 schedules never try %q", w)
		}
	}
}

// No act touches what another one has broken and not mended, and nothing is done
// to a slot that is not there.
func TestActsDoNotMeet(t *testing.T) {
	for seed := range uint64(300) {
		s := NewSchedule(seed, Limits{Majors: allMajors})
		alive := map[string]bool{}
		for _, p := range s.Phases {
			until := map[string]time.Duration{}
			for _, a := range p.Acts {
				for _, what := range a.needs() {
					if what != "" && a.At < until[what] {
						t.Fatalf("seed %d: %s while %s is in use until %v\n%s", seed, a, what, until[what], s.String())
					}
					until[what] = a.At + a.Hold
				}
				switch a.Kind {
				case BearSlot:
					alive[a.On] = true
				case DropSlot, RenewSlot:
					if !alive[a.On] {
						t.Fatalf("seed %d: %s, which is not there\n%s", seed, a, s.String())
					}
					alive[a.On] = a.Kind == RenewSlot
				}
			}
			if p.End == Switchover && !p.Settled {
				t.Fatalf("seed %d switches over in the middle of faults", seed)
			}
			if !slices.IsSortedFunc(p.Acts, func(a, b Act) int { return int(a.At - b.At) }) {
				t.Fatalf("seed %d: acts are out of order", seed)
			}
		}
	}
}
