package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
)

func entry(id int64) row { return row{"entry", id} }

// Each way in which a subscriber can fail to agree makes the demo fail; what it
// has from commits that the standby never got is told apart.
func TestCompare(t *testing.T) {
	primary := contents{entry(1): "(1,a)", entry(2): "(2,b)", {"account", 1}: "(1,x)"}
	for _, test := range []struct {
		name       string
		subscriber contents
		ahead      map[row]bool
		want       []string
		good       bool
	}{
		{"equal", contents{entry(1): "(1,a)", entry(2): "(2,b)", {"account", 1}: "(1,x)"}, nil, nil, true},
		{"a missing row", contents{entry(1): "(1,a)", {"account", 1}: "(1,x)"}, nil, []string{"missing entry 2"}, false},
		{"an extra row", contents{entry(1): "(1,a)", entry(2): "(2,b)", entry(3): "(3,c)", {"account", 1}: "(1,x)"}, nil,
			[]string{"extra entry 3"}, false},
		{"a different value", contents{entry(1): "(1,a)", entry(2): "(2,B)", {"account", 1}: "(1,x)"}, nil,
			[]string{"altered entry 2"}, false},
		{"the same id in another table", contents{entry(1): "(1,a)", {"account", 2}: "(2,b)", {"account", 1}: "(1,x)"}, nil,
			[]string{"extra account 2", "missing entry 2"}, false},
		{"nothing at all", contents{}, nil, []string{"missing account 1", "missing entry 1", "missing entry 2"}, false},
		{"rows of commits the standby never got",
			contents{entry(2): "(2,B)", entry(3): "(3,c)", {"account", 1}: "(1,x)"},
			map[row]bool{entry(1): true, entry(2): true, entry(3): true},
			[]string{"missing entry 1 ahead", "altered entry 2 ahead", "extra entry 3 ahead"}, true},
		{"a row lost beside one that is ahead", contents{entry(2): "(2,B)", {"account", 1}: "(1,x)"},
			map[row]bool{entry(2): true}, []string{"missing entry 1", "altered entry 2 ahead"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := usableResult()
			r.differences = compare(primary, test.subscriber, test.ahead)
			var got []string
			for _, d := range r.differences {
				text := fmt.Sprintf("%s %v", d.kind, d.row)
				if d.ahead {
					text += " ahead"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("differences are %q, want %q", got, test.want)
			}
			if r.good() != test.good {
				t.Errorf("good is %v, want %v", r.good(), test.good)
			}
		})
	}
}

// usableResult is a result in which only the comparison is open.
func usableResult() *result {
	report := &decoder.PromotionReport{}
	for _, name := range slots {
		report.Slots = append(report.Slots, decoder.PromotionSlot{Name: name, Usable: true})
	}
	return &result{report: report}
}

func TestSlotThatIsNotUsableIsALoss(t *testing.T) {
	r := usableResult()
	r.report.Slots[0].Usable = false
	if r.good() {
		t.Error("a slot that nobody can use is good")
	}
	r.report.Slots = r.report.Slots[1:]
	if r.good() {
		t.Error("a slot that is not there is good")
	}
}

// The rows that are ahead are those of transactions that only the subscriber has.
func TestAheadRows(t *testing.T) {
	primary := journal{1: {{inserted, entry(1)}}, 2: {{updated, entry(1)}}}
	subscriber := journal{1: primary[1], 2: primary[2], 3: {{deleted, entry(1)}, {inserted, entry(2)}}}
	ahead := subscriber.without(primary).rows()
	want := map[row]bool{entry(1): true, entry(2): true, {"journal", 3}: true}
	if fmt.Sprint(ahead) != fmt.Sprint(want) {
		t.Errorf("ahead are %v, want %v", ahead, want)
	}
	if rest := primary.without(subscriber); len(rest) != 0 {
		t.Errorf("the other way round it is %v, want none", rest)
	}
}

func TestUnseen(t *testing.T) {
	history := journal{1: {{inserted, entry(1)}, {updated, entry(1)}}, 2: {{deleted, entry(1)}}}
	own := func(n int64) change { return change{inserted, row{"journal", n}} }
	for _, test := range []struct {
		name       string
		got        func(d delivered)
		want       string
		duplicates int
	}{
		{"all, in two pieces", func(d delivered) {
			d.add(1, []change{own(1), {inserted, entry(1)}, {updated, entry(1)}})
			d.add(2, []change{own(2), {deleted, entry(1)}})
		}, "map[]", 0},
		{"one twice, and one that the new primary never had", func(d delivered) {
			d.add(1, []change{own(1), {inserted, entry(1)}, {updated, entry(1)}})
			d.add(1, []change{own(1), {inserted, entry(1)}, {updated, entry(1)}})
			d.add(2, []change{own(2), {deleted, entry(1)}})
			d.add(3, []change{own(3)})
		}, "map[]", 1},
		{"a transaction", func(d delivered) {
			d.add(1, []change{own(1), {inserted, entry(1)}, {updated, entry(1)}})
		}, "map[2:[DELETE entry 1 INSERT journal 2]]", 0},
		{"a change", func(d delivered) {
			d.add(1, []change{own(1), {inserted, entry(1)}})
			d.add(2, []change{own(2), {deleted, entry(1)}})
		}, "map[1:[UPDATE entry 1]]", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := delivered{}
			test.got(d)
			r := usableResult()
			r.unseen = d.unseen(history)
			if got := fmt.Sprint(r.unseen); got != test.want {
				t.Errorf("unseen are %s, want %s", got, test.want)
			}
			if want := test.want == "map[]"; r.good() != want {
				t.Errorf("good is %v, want %v", r.good(), want)
			}
			if d.duplicates() != test.duplicates {
				t.Errorf("%d came twice, want %d", d.duplicates(), test.duplicates)
			}
		})
	}
}

func TestPrintedVerdict(t *testing.T) {
	r := usableResult()
	var out strings.Builder
	r.print(&out)
	if !strings.Contains(out.String(), "Nothing that the new primary has is lost.") {
		t.Errorf("a good result is printed as:\n%s", out.String())
	}
	out.Reset()
	r.differences = compare(contents{entry(7): "(7,a)"}, contents{}, nil)
	r.print(&out)
	for _, want := range []string{"LOSS", "missing: entry 7", "(7,a)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("a lost row is printed without %q:\n%s", want, out.String())
		}
	}
}
