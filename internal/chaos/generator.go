package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotferry/slotferry/internal/rig"
)

const (
	pgoutput     = "pgoutput"
	testDecoding = "test_decoding"
)

// databases are where traffic is: most of it in the first.
var databases = []string{"postgres", "second"}

// generator makes schedules. Its state is the random numbers, and which slots it
// has let be born.
type generator struct {
	rng    *rand.Rand
	limits Limits
	born   int
	alive  []string // slots that were born and not dropped
}

func (g *generator) consumers(major int) []Consumer {
	streaming := func() string { return pick(g.rng, "off", "on", "parallel") }
	list := []Consumer{
		{Name: "orders", Database: databases[0], Plugin: pgoutput, Streaming: streaming(), TwoPhase: g.rng.IntN(3) == 0},
		{Name: "audit", Database: databases[0], Plugin: testDecoding},
		{Name: "second_audit", Database: databases[1], Plugin: testDecoding},
	}
	if !g.limits.Short && g.rng.IntN(2) == 0 {
		list = append(list, Consumer{Name: "second_orders", Database: databases[1], Plugin: pgoutput, Streaming: streaming(), TwoPhase: true})
	}
	return list
}

func (g *generator) phase(s *Schedule) Phase {
	p := Phase{End: Failover, Settled: g.rng.IntN(3) != 0, Patient: g.rng.IntN(3) != 0}
	if g.rng.IntN(3) == 0 {
		p.End, p.Settled = Switchover, true
	}
	acts := 3 + g.rng.IntN(5)
	if g.limits.Short {
		acts = 3
	}
	var at time.Duration
	busy := map[string]time.Duration{} // until when
	for len(p.Acts) < acts {
		at += g.duration(100, 900)
		a := g.act(s)
		a.At = at
		if slices.ContainsFunc(a.needs(), func(what string) bool { return busy[what] > at }) {
			g.undo(a)
			continue // not now; time goes on, so this ends
		}
		for _, what := range a.needs() {
			busy[what] = at + a.Hold + settleTime
		}
		p.Acts = append(p.Acts, a)
	}
	p.Length = at + g.duration(100, 1500)
	return p
}

// settleTime is how long after an act nothing else is done to the same thing: a
// server has to be up before it can be asked for something.
const settleTime = 500 * time.Millisecond

// act thinks of something.
func (g *generator) act(s *Schedule) Act {
	legs := []string{string(rig.LegWALReceiver), string(rig.LegUpstream), string(rig.LegStandby), string(LegSubscriber)}
	processes := []string{Helper}
	if s.Mode != rig.Solo {
		legs = append(legs, string(rig.LegRelay))
		processes = append(processes, Relay)
	}
	clocks, servers := slices.Clone(processes), []string{Standby, Primary}
	if s.Cascade && len(s.Phases) == 0 {
		processes = append(processes, LastHelper)
		servers = append(servers, LastStandby)
	}
	hold := g.duration(100, 2500)
	switch n := g.rng.IntN(100); {
	case n < 16:
		return Act{Kind: Kill, On: pick(g.rng, append(append(processes, servers...), Subscriber)...), Hold: g.duration(0, 1500)}
	case n < 26:
		return Act{Kind: Pause, On: pick(g.rng, append(processes, servers...)...), Hold: hold}
	case n < 30:
		return Act{Kind: Restart, On: Standby}
	case n < 38:
		return Act{Kind: Cut, On: pick(g.rng, legs...)}
	case n < 44:
		return Act{Kind: Blackhole, On: pick(g.rng, legs...), Hold: hold}
	case n < 54:
		return Act{Kind: pick(g.rng, StallUp, StallDown), On: pick(g.rng, legs...), Hold: hold}
	case n < 60:
		return Act{Kind: FillDisk, Hold: hold}
	case n < 65:
		return Act{Kind: MoveClock, On: pick(g.rng, clocks...), Amount: pick(g.rng, -86400, -600, -7, 7, 600, 86400)}
	case n < 69:
		return Act{Kind: NoFeedback, Hold: hold}
	case n < 73:
		return Act{Kind: PauseReplay, Hold: hold}
	case n < 76:
		return Act{Kind: EndSessions}
	case n < 79:
		return Act{Kind: EndReceiver}
	case n < 85:
		return Act{Kind: HoldConsumer, On: pick(g.rng, s.Consumers...).Name, Hold: hold}
	case n < 88:
		return Act{Kind: RewriteAll}
	}
	return g.churn()
}

// churn lets a slot be born, or does something to one that was.
func (g *generator) churn() Act {
	if len(g.alive) == 0 || len(g.alive) < 3 && g.rng.IntN(2) == 0 {
		g.born++
		name := fmt.Sprintf("born_%d", g.born)
		g.alive = append(g.alive, name)
		return Act{Kind: BearSlot, On: name}
	}
	name := pick(g.rng, g.alive...)
	if g.rng.IntN(2) == 0 {
		return Act{Kind: RenewSlot, On: name}
	}
	g.alive = slices.DeleteFunc(g.alive, func(other string) bool { return other == name })
	return Act{Kind: DropSlot, On: name}
}

// undo takes back what thinking of an act has changed.
func (g *generator) undo(a Act) {
	switch a.Kind {
	case BearSlot:
		g.alive = slices.DeleteFunc(g.alive, func(name string) bool { return name == a.On })
	case DropSlot:
		g.alive = append(g.alive, a.On)
	}
}

// duration is a random one, in milliseconds.
func (g *generator) duration(least, most int) time.Duration {
	return time.Duration(least+g.rng.IntN(most-least)) * time.Millisecond
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
