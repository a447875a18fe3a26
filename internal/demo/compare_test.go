package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/bank"
)

func entry(id int64) bank.Row { return bank.Row{Table: "entry", ID: id} }

// Each way in which a subscriber can fail to agree makes the demo fail; what it
// has from commits that the standby never got is told apart.
func TestCompare(t *testing.T) {
	primary := bank.Contents{entry(1): "(1,a)", entry(2): "(2,b)", {Table: "account", ID: 1}: "(1,x)"}
	for _, test := range []struct {
		name       string
		subscriber bank.Contents
		ahead      map[bank.Row]bool
		want       []string
		good       bool
	}{
		{"equal", bank.Contents{entry(1): "(1,a)", entry(2): "(2,b)", {Table: "account", ID: 1}: "(1,x)"}, nil, nil, true},
		{"a missing row", bank.Contents{entry(1): "(1,a)", {Table: "account", ID: 1}: "(1,x)"}, nil, []string{"missing entry 2"}, false},
		{"an extra row", bank.Contents{entry(1): "(1,a)", entry(2): "(2,b)", entry(3): "(3,c)", {Table: "account", ID: 1}: "(1,x)"}, nil,
			[]string{"extra entry 3"}, false},
		{"a different value", bank.Contents{entry(1): "(1,a)", entry(2): "(2,B)", {Table: "account", ID: 1}: "(1,x)"}, nil,
			[]string{"altered entry 2"}, false},
		{"the same id in another table", bank.Contents{entry(1): "(1,a)", {Table: "account", ID: 2}: "(2,b)", {Table: "account", ID: 1}: "(1,x)"}, nil,
			[]string{"extra account 2", "missing entry 2"}, false},
		{"nothing at all", bank.Contents{}, nil, []string{"missing account 1", "missing entry 1", "missing entry 2"}, false},
		{"rows of commits the standby never got",
			bank.Contents{entry(2): "(2,B)", entry(3): "(3,c)", {Table: "account", ID: 1}: "(1,x)"},
			map[bank.Row]bool{entry(1): true, entry(2): true, entry(3): true},
			[]string{"missing entry 1 ahead", "altered entry 2 ahead", "extra entry 3 ahead"}, true},
		{"a row lost beside one that is ahead", bank.Contents{entry(2): "(2,B)", {Table: "account", ID: 1}: "(1,x)"},
			map[bank.Row]bool{entry(2): true}, []string{"missing entry 1", "altered entry 2 ahead"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := usableResult()
			r.differences = bank.Compare(primary, test.subscriber, test.ahead)
			var got []string
			for _, d := range r.differences {
				text := fmt.Sprintf("%s %v", d.Kind, d.Row)
				if d.Ahead {
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

// A change that a consumer never got is a loss.
func TestUnseenChangeIsALoss(t *testing.T) {
	r := usableResult()
	if r.unseen = (bank.Delivered{}).Unseen(bank.Journal{1: nil}); r.good() {
		t.Error("a transaction that never came is good")
	}
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

func TestPrintedVerdict(t *testing.T) {
	r := usableResult()
	var out strings.Builder
	r.print(&out)
	if !strings.Contains(out.String(), "Nothing that the new primary has is lost.") {
		t.Errorf("a good result is printed as:\n%s", out.String())
	}
	out.Reset()
	r.differences = bank.Compare(bank.Contents{entry(7): "(7,a)"}, bank.Contents{}, nil)
	r.print(&out)
	for _, want := range []string{"LOSS", "missing: entry 7", "(7,a)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("a lost row is printed without %q:\n%s", want, out.String())
		}
	}
}
