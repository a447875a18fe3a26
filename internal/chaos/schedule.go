package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/rig"
)

// Schedule is all that a round does. It is data: the same seed and Limits give the
// same schedule, and a test can write one by hand.
type Schedule struct {
	Seed      uint64
	Major     int
	Mode      rig.Mode
	Consumers []Consumer
	Phases    []Phase

	// HoldBack lets every consumer connect through the relay in front of the primary,
	// which holds back until a standby has what it sends: nobody may then be ahead.
	HoldBack bool

	// Cascade hangs a second standby behind the first. A failover promotes the first,
	// and the second is its standby then; or the last, when both others die.
	Cascade bool
}

// Consumer is a logical consumer that is there from the beginning.
type Consumer struct {
	Name      string // of the slot
	Database  string
	Plugin    string // pgoutput: a subscription; test_decoding: a consumer of ours
	Streaming string // of a subscription: off, on or parallel
	TwoPhase  bool   // of a subscription
}

// Phase is a time with one server as the primary. It ends with the other as the
// primary.
type Phase struct {
	Acts   []Act
	Length time.Duration // from its begin to its end; acts go on to be undone after it
	End    End

	Settled bool // before its end all is undone and every slot ready again
	Patient bool // nobody turns to the new primary before its helper has finished
}

// End is how a phase ends.
type End string

// The ends.
const (
	Failover   End = "failover"   // the primary is killed with kill -9
	Switchover End = "switchover" // the primary is stopped in order; always Settled

	// FailoverToLast is of a cascade: the primary and the first standby are killed.
	FailoverToLast End = "failover to the last"
)

// abortsKill reports whether a savepoint that is rolled back can kill a subscriber. 18
// marks an aborted subtransaction as streamed when it finds it while it looks for
// memory (ReorderBufferCheckAndTruncateAbortedTXN, reorderbuffer.c), and so sends STREAM
// ABORT of a transaction that was never begun to be streamed. Every apply worker that
// gets it dies of signal 11 (stream_abort_internal, worker.c), again and again. Whether
// it asked for streaming has no part in that.
func (s *Schedule) abortsKill() bool {
	return s.Major >= 18 && slices.ContainsFunc(s.Consumers, func(c Consumer) bool { return c.Plugin == pgoutput })
}

// Limits are what a schedule may do.
type Limits struct {
	Majors []int // to choose from
	Short  bool  // one phase, few acts: a round in a few seconds
}

// NewSchedule makes the schedule of a seed. It is pure.
func NewSchedule(seed uint64, limits Limits) Schedule {
	g := generator{rng: rand.New(rand.NewPCG(seed, 0x736c6f74)), limits: limits}
	// Neighbouring seeds go through the majors and modes in turn.
	s := Schedule{Seed: seed, Major: limits.Majors[seed%uint64(len(limits.Majors))]}
	modes := []rig.Mode{rig.Inline, rig.Sidecar, rig.Solo, rig.Inline, rig.Sidecar}
	s.Mode = modes[seed%uint64(len(modes))]
	s.Cascade = rand.New(rand.NewPCG(seed, 0x63617363)).IntN(5) == 0
	s.Consumers = g.consumers(s.Major)
	phases := 1
	if !limits.Short {
		phases += g.rng.IntN(3)
	}
	for range phases {
		s.Phases = append(s.Phases, g.phase(&s))
	}
	s.HoldBack = g.rng.IntN(3) == 0 && !s.Cascade // its last node has no standby
	if s.Cascade {
		g.cascade(&s)
	}
	return s
}

// cascade makes the phases those of a cascade: as many as it has standbys, at most.
func (g *generator) cascade(s *Schedule) {
	s.Phases = s.Phases[:min(2, len(s.Phases))]
	for i := range s.Phases {
		s.Phases[i].End = Failover
	}
	if len(s.Phases) == 1 && g.rng.IntN(2) == 0 {
		s.Phases[0].End = FailoverToLast
	}
}

// String prints a schedule, for people.
func (s *Schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: PostgreSQL %d, %s", s.Seed, s.Major, s.Mode)
	if s.HoldBack {
		b.WriteString(", held back")
	}
	if s.Cascade {
		b.WriteString(", cascade")
	}
	b.WriteByte('\n')
	for _, c := range s.Consumers {
		fmt.Fprintf(&b, "  slot %s in %s, %s", c.Name, c.Database, c.Plugin)
		if c.Plugin == pgoutput {
			fmt.Fprintf(&b, ", streaming %s, two_phase %t", c.Streaming, c.TwoPhase)
		}
		b.WriteByte('\n')
	}
	for _, p := range s.Phases {
		for _, a := range p.Acts {
			fmt.Fprintf(&b, "  %s\n", a)
		}
		how := "in the middle of it"
		if p.Settled {
			how = "when all is well again"
		}
		if p.Patient {
			how += ", nobody comes before the helper has finished"
		}
		fmt.Fprintf(&b, "  %5.2f s  %s %s\n", p.Length.Seconds(), p.End, how)
	}
	return b.String()
}
