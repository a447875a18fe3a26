package chaos

import (
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/bank"
)

func entry(id int64) bank.Row { return bank.Row{Table: "entry", ID: id} }

func inserted(id int64) bank.Change { return bank.Change{Op: bank.Inserted, Row: entry(id)} }

// got makes what a consumer got of transactions, each with the entry of its number
// and its own row in the journal.
func got(numbers ...int64) bank.Delivered {
	d := bank.Delivered{}
	for _, n := range numbers {
		d.Add(n, []bank.Change{inserted(n), {Op: bank.Inserted, Row: bank.Row{Table: "journal", ID: n}}})
	}
	return d
}

// history makes the journal of such transactions.
func history(numbers ...int64) bank.Journal {
	j := bank.Journal{}
	for _, n := range numbers {
		j[n] = []bank.Change{inserted(n)}
	}
	return j
}

// Each fault that a history can show is found, and what only looks like one is
// not. The last primary has transactions 1 to 4; 5 was acknowledged, 6 is in
// doubt, 7 was rolled back, 8 was never ended.
func TestJudge(t *testing.T) {
	outcomes := map[int64]bank.Outcome{
		1: bank.Acked, 2: bank.Acked, 3: bank.Doubtful, 4: bank.Acked, 5: bank.Acked, 6: bank.Doubtful, 7: bank.RolledBack,
	}
	stream := func(d bank.Delivered) Evidence {
		return Evidence{Streams: []Stream{{Slot: "s", Database: "d", Got: d}}}
	}
	subscription := func(j bank.Journal, differences ...bank.Difference) Evidence {
		return Evidence{Subscriptions: []Subscription{{Slot: "s", Database: "d", Journal: j, Differences: differences}}}
	}
	held := func(e Evidence) Evidence {
		e.HeldBack = true
		return e
	}
	for _, test := range []struct {
		name      string
		e         Evidence
		failovers int
		want      string // begins of the faults, in order
		twice     int
		ahead     int
	}{
		{"all is there", stream(got(1, 2, 3, 4)), 0, "", 0, 0},
		{"one is lost", stream(got(1, 2, 4)), 0, "LOST: s never got 2 changes of transaction 3", 0, 0},
		{"one is lost in a failover, too", stream(got(1, 2, 4)), 1, "LOST: s never got 2 changes of transaction 3", 0, 0},
		{"nothing came", stream(bank.Delivered{}), 0,
			"LOST: s never got 2 changes of transaction 1|LOST: s never got 2 changes of transaction 2|" +
				"LOST: s never got 2 changes of transaction 3|LOST: s never got 2 changes of transaction 4", 0, 0},
		{"a change is lost", func() Evidence {
			d := got(1, 2, 3, 4)
			delete(d[2].Changes, inserted(2))
			return stream(d)
		}(), 0, "LOST: s never got 1 changes of transaction 2, such as INSERT entry 2", 0, 0},
		{"one came twice", stream(got(1, 2, 2, 3, 4)), 0, "", 1, 0},
		{"it was born after the first two", Evidence{Streams: []Stream{{Slot: "s", Database: "d", From: 2, Got: got(3, 4)}}}, 0, "", 0, 0},
		{"its slot was dropped", Evidence{Streams: []Stream{{Slot: "s", Database: "d", Dropped: true, Got: got(1)}}}, 0, "", 0, 0},
		{"it was told", Evidence{Streams: []Stream{{Slot: "s", Database: "d", Refused: "no such slot", Got: got(1)}}}, 1, "", 0, 0},
		{"it was told, and had got what was rolled back", Evidence{Streams: []Stream{{Slot: "s", Database: "d", Refused: "no", Got: got(7)}}}, 1,
			"EXTRA: s got transaction 7", 0, 0},
		{"what a dead primary had", stream(got(1, 2, 3, 4, 5, 6)), 1, "", 0, 2},
		{"what no primary that died can have had", stream(got(1, 2, 3, 4, 5)), 0, "EXTRA: s got transaction 5", 0, 0},
		{"what was rolled back", stream(got(1, 2, 3, 4, 7)), 1, "EXTRA: s got transaction 7", 0, 0},
		{"what was never ended", stream(got(1, 2, 3, 4, 8)), 1, "EXTRA: s got transaction 8", 0, 0},
		{"a change that its transaction did not do", func() Evidence {
			d := got(1, 2, 3, 4)
			d.Add(4, []bank.Change{inserted(99)})
			return stream(d)
		}(), 0, "EXTRA: s got INSERT entry 99 of transaction 4", 1, 0},
		{"a subscriber with all", subscription(history(1, 2, 3, 4)), 0, "", 0, 0},
		{"a subscriber without a row", subscription(history(1, 2, 3, 4), bank.Difference{Row: entry(4), Kind: bank.Missing}), 1,
			"LOST: s: entry 4 is missing", 0, 0},
		{"a subscriber with an old row", subscription(history(1, 2, 3, 4), bank.Difference{Row: entry(4), Kind: bank.Altered}), 0,
			"LOST: s: entry 4 is altered", 0, 0},
		{"a subscriber with a row too many", subscription(history(1, 2, 3, 4), bank.Difference{Row: entry(9), Kind: bank.Extra}), 0,
			"EXTRA: s has entry 9", 0, 0},
		{"a subscriber that is ahead", subscription(history(1, 2, 3, 4, 5), bank.Difference{Row: entry(5), Kind: bank.Extra, Ahead: true}), 1,
			"", 0, 1},
		{"a subscriber that is ahead of a living primary", subscription(history(1, 2, 3, 4, 5)), 0, "EXTRA: s got transaction 5", 0, 0},
		{"one that was held back, with all", held(stream(got(1, 2, 3, 4))), 1, "", 0, 0},
		{"one that was held back, twice", held(stream(got(1, 2, 3, 4, 4))), 1, "", 1, 0},
		{"one that was held back, without one", held(stream(got(1, 2, 4))), 1, "LOST: s never got 2 changes of transaction 3", 0, 0},
		{"one that was held back, with what a dead primary had", held(stream(got(1, 2, 3, 4, 5, 6))), 1,
			"EXTRA: s got transaction 5|EXTRA: s got transaction 6", 0, 0},
		{"a subscriber that was held back and is ahead",
			held(subscription(history(1, 2, 3, 4, 5), bank.Difference{Row: entry(5), Kind: bank.Extra, Ahead: true})), 1,
			"EXTRA: s got transaction 5", 0, 0},
		{"a slot that was held back and confirmed to the switch",
			held(Evidence{Moves: []Move{{Slot: "s", Ready: true, Usable: true, At: 60, Known: 60, Switch: 90, Confirmed: 90}}}), 1, "", 0, 0},
		{"a slot that was held back and confirmed past the switch",
			held(Evidence{Moves: []Move{{Slot: "s", Ready: true, Usable: true, At: 60, Known: 60, Switch: 90, Confirmed: 91}}}), 1,
			"EXTRA: s was held back and had come to 0/5B", 0, 0},
		{"a switchover forgot", Evidence{Forgotten: []int64{5}}, 0, "LOST: transaction 5 was acknowledged", 0, 0},
		{"stuck", Evidence{Stuck: []string{"s is not ready"}}, 0, "STUCK: s is not ready", 0, 0},
		{"a ready slot is gone", Evidence{Moves: []Move{{Slot: "s", Ready: true}}}, 1, "LOST: slot s was ready", 0, 0},
		{"a pending slot is gone", Evidence{Moves: []Move{{Slot: "s"}}}, 1, "", 0, 0},
		{"a slot fell back as far as it may", Evidence{Moves: []Move{{Slot: "s", Ready: true, Usable: true, At: 50, Known: 50, Switch: 90, Confirmed: 80}}}, 1,
			"", 0, 0},
		{"a slot fell back further", Evidence{Moves: []Move{{Slot: "s", Ready: true, Usable: true, At: 49, Known: 50, Switch: 90, Confirmed: 80}}}, 1,
			"OVERDUE: slot s is at 0/31", 0, 0},
		{"a slot cannot pass the switch", Evidence{Moves: []Move{{Slot: "s", Ready: true, Usable: true, At: 90, Known: 95, Switch: 90, Confirmed: 99}}}, 1,
			"", 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.e.History = map[string]bank.Journal{"d": history(1, 2, 3, 4)}
			if test.e.Streams == nil && test.e.Subscriptions == nil {
				test.e.History = nil
			}
			test.e.Failovers = test.failovers
			test.e.Outcome = func(_ string, n int64) bank.Outcome { return outcomes[n] }
			v := Judge(&test.e)
			var faults []string
			for line := range strings.Lines(v.String()) {
				if strings.Contains(line, ": ") && strings.ToUpper(line[:4]) == line[:4] && line[0] >= 'A' {
					faults = append(faults, line)
				}
			}
			want := strings.Split(test.want, "|")
			if test.want == "" {
				want = nil
			}
			if len(faults) != len(want) || v.Good() != (len(want) == 0) {
				t.Fatalf("good %t, faults are %q, want %q", v.Good(), faults, want)
			}
			for i := range want {
				if !strings.HasPrefix(faults[i], want[i]) {
					t.Errorf("fault is %q, want %q", faults[i], want[i])
				}
			}
			if v.Twice != test.twice || v.Ahead != test.ahead {
				t.Errorf("%d twice and %d ahead, want %d and %d", v.Twice, v.Ahead, test.twice, test.ahead)
			}
		})
	}
}

// What is sent again is measured up to the switch: what lay behind is gone.
func TestBoundEndsAtTheSwitch(t *testing.T) {
	m := Move{Usable: true, At: 40, Known: 60, Switch: 90, Confirmed: 95}
	if m.Again() != 50 || m.Bound() != 30 {
		t.Errorf("again %d, bound %d, want 50 and 30", m.Again(), m.Bound())
	}
	m = Move{Usable: true, At: 90, Known: 95, Switch: 90, Confirmed: 95}
	if m.Again() != 0 || m.Bound() != 0 {
		t.Errorf("again %d, bound %d, want none", m.Again(), m.Bound())
	}
}
