package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/protocol"
)

// Verdict is what a round cost its consumers. The first four are faults, a line
// for each; the rest is what happened.
type Verdict struct {
	Lost    []string // what a consumer should have got and did not
	Extra   []string // what a consumer got and nobody had committed
	Stuck   []string // what did not come to be in time
	Overdue []string // slots that were further back than their helper's knowledge allows

	Transactions int          // in the last primary's history
	Delivered    int          // transactions that consumers got, each counted for each of them
	Twice        int          // of these, those that came more than once
	Again        protocol.LSN // WAL that consumers were sent a second time after promotions, bytes
	Bound        protocol.LSN // how much of that their helpers could not know of
	Ahead        int          // transactions that a consumer has from a primary that died with them
	Moved        int          // slots that a promotion handed over
	Measured     int          // of these, those whose position was held against what their helper had known
	Told         []string     // slots whose consumer was told that it is not there
}

// Good reports whether a round has shown no fault.
func (v *Verdict) Good() bool { return len(v.Lost)+len(v.Extra)+len(v.Stuck)+len(v.Overdue) == 0 }

// Judge says what a round cost. It is pure.
func Judge(e *Evidence) Verdict {
	v := Verdict{Stuck: slices.Clone(e.Stuck)}
	for _, history := range e.History {
		v.Transactions += len(history)
	}
	for _, n := range e.Forgotten {
		v.Lost = append(v.Lost, fmt.Sprintf("transaction %d was acknowledged, and is gone after a switchover", n))
	}
	for i := range e.Moves {
		v.judgeMove(&e.Moves[i])
		if e.HeldBack {
			v.judgeAhead(&e.Moves[i])
		}
	}
	for i := range e.Streams {
		v.judgeStream(e, &e.Streams[i])
	}
	for i := range e.Subscriptions {
		v.judgeSubscription(e, &e.Subscriptions[i])
	}
	return v
}

// judgeAhead judges how far a consumer was that was held back: what it has confirmed
// behind the switch is skipped when it comes to the new primary.
func (v *Verdict) judgeAhead(m *Move) {
	if m.Switch != 0 && m.Confirmed > m.Switch {
		v.Extra = append(v.Extra, fmt.Sprintf("%s was held back and had come to %v, the new primary of phase %d begins at %v",
			m.Slot, m.Confirmed, m.Phase, m.Switch))
	}
}

func (v *Verdict) judgeMove(m *Move) {
	switch {
	case m.Usable:
		v.Moved++
		v.Again += m.Again()
		v.Bound += m.Bound()
		if m.Known == 0 || m.Switch == 0 {
			return
		}
		v.Measured++
		if m.At < min(m.Known, m.Switch) {
			v.Overdue = append(v.Overdue, fmt.Sprintf("slot %s is at %v after phase %d, its helper knew %v, switched at %v",
				m.Slot, m.At, m.Phase, m.Known, m.Switch))
		}
	case m.Ready:
		v.Lost = append(v.Lost, fmt.Sprintf("slot %s was ready, and is not there after phase %d", m.Slot, m.Phase))
	}
}

func (v *Verdict) judgeStream(e *Evidence, s *Stream) {
	history := e.History[s.Database]
	v.Delivered += len(s.Got)
	v.Twice += s.Got.Duplicates()
	for n, got := range s.Got {
		committed, there := history[n]
		if !there {
			v.judgeForeign(e, s.Slot, s.Database, n)
			continue
		}
		own := map[bank.Change]bool{}
		for _, c := range (bank.Journal{n: committed}).Changes(n) {
			own[c] = true
		}
		for c := range got.Changes {
			if !own[c] {
				v.Extra = append(v.Extra, fmt.Sprintf("%s got %v of transaction %d, which did not do that", s.Slot, c, n))
			}
		}
	}
	switch {
	case s.Refused != "":
		v.Told = append(v.Told, s.Slot)
		return
	case s.Dropped:
		return
	}
	owed := bank.Journal{}
	for n, changes := range history {
		if n > s.From {
			owed[n] = changes
		}
	}
	for n, changes := range s.Got.Unseen(owed) {
		v.Lost = append(v.Lost, fmt.Sprintf("%s never got %d changes of transaction %d, such as %v", s.Slot, len(changes), n, changes[0]))
	}
}

func (v *Verdict) judgeSubscription(e *Evidence, s *Subscription) {
	v.Delivered += len(s.Journal)
	ahead := s.Journal.Without(e.History[s.Database])
	for n := range ahead {
		v.judgeForeign(e, s.Slot, s.Database, n)
	}
	if s.Refused != "" {
		v.Told = append(v.Told, s.Slot)
		return
	}
	for _, d := range s.Differences {
		switch {
		case d.Ahead:
		case d.Kind == bank.Extra:
			v.Extra = append(v.Extra, fmt.Sprintf("%s has %v, which the primary has not", s.Slot, d.Row))
		default:
			v.Lost = append(v.Lost, fmt.Sprintf("%s: %v is %s", s.Slot, d.Row, d.Kind))
		}
	}
}

// judgeForeign judges a transaction that a consumer got and the last primary does
// not have. That can be right only if a primary died that may have had it, and
// nothing was held back.
func (v *Verdict) judgeForeign(e *Evidence, slot, database string, n int64) {
	outcome := e.Outcome(database, n)
	if e.Failovers > 0 && !e.HeldBack && (outcome == bank.Acked || outcome == bank.Doubtful) {
		v.Ahead++
		return
	}
	v.Extra = append(v.Extra, fmt.Sprintf("%s got transaction %d, which the primary has not", slot, n))
}

// shown is how many lines of each fault are printed.
const shown = 8

// String prints a verdict, the faults first.
func (v *Verdict) String() string {
	var b strings.Builder
	for _, fault := range []struct {
		what  string
		lines []string
	}{{"LOST", v.Lost}, {"EXTRA", v.Extra}, {"STUCK", v.Stuck}, {"OVERDUE", v.Overdue}} {
		slices.Sort(fault.lines)
		for i, line := range fault.lines {
			if i == shown {
				fmt.Fprintf(&b, "%s: %d more\n", fault.what, len(fault.lines)-shown)
				break
			}
			fmt.Fprintf(&b, "%s: %s\n", fault.what, line)
		}
	}
	fmt.Fprintf(&b, "%d transactions, %d delivered, %d of them twice (%d bytes of WAL, %d unknowable), %d slots moved, %d measured",
		v.Transactions, v.Delivered, v.Twice, uint64(v.Again), uint64(v.Bound), v.Moved, v.Measured)
	if v.Ahead > 0 {
		fmt.Fprintf(&b, ", %d only with a consumer", v.Ahead)
	}
	if len(v.Told) > 0 {
		fmt.Fprintf(&b, ", told there is no slot: %s", strings.Join(v.Told, " "))
	}
	return b.String()
}
