package bank

import (
	"fmt"
	"testing"
)

// The rows that are ahead are those of transactions that only the subscriber has.
func TestAheadRows(t *testing.T) {
	primary := Journal{1: {{Inserted, entry(1)}}, 2: {{Updated, entry(1)}}}
	subscriber := Journal{1: primary[1], 2: primary[2], 3: {{Deleted, entry(1)}, {Inserted, entry(2)}}}
	ahead := subscriber.Without(primary).Rows()
	want := map[Row]bool{entry(1): true, entry(2): true, {"journal", 3}: true}
	if fmt.Sprint(ahead) != fmt.Sprint(want) {
		t.Errorf("ahead are %v, want %v", ahead, want)
	}
	if rest := primary.Without(subscriber); len(rest) != 0 {
		t.Errorf("the other way round it is %v, want none", rest)
	}
}

func TestUnseen(t *testing.T) {
	history := Journal{1: {{Inserted, entry(1)}, {Updated, entry(1)}}, 2: {{Deleted, entry(1)}}}
	own := func(n int64) Change { return Change{Inserted, Row{"journal", n}} }
	for _, test := range []struct {
		name       string
		got        func(d Delivered)
		want       string
		duplicates int
	}{
		{"all, in two pieces", func(d Delivered) {
			d.Add(1, []Change{own(1), {Inserted, entry(1)}, {Updated, entry(1)}})
			d.Add(2, []Change{own(2), {Deleted, entry(1)}})
		}, "map[]", 0},
		{"one twice, and one that the new primary never had", func(d Delivered) {
			d.Add(1, []Change{own(1), {Inserted, entry(1)}, {Updated, entry(1)}})
			d.Add(1, []Change{own(1), {Inserted, entry(1)}, {Updated, entry(1)}})
			d.Add(2, []Change{own(2), {Deleted, entry(1)}})
			d.Add(3, []Change{own(3)})
		}, "map[]", 1},
		{"a transaction", func(d Delivered) {
			d.Add(1, []Change{own(1), {Inserted, entry(1)}, {Updated, entry(1)}})
		}, "map[2:[DELETE entry 1 INSERT journal 2]]", 0},
		{"a change", func(d Delivered) {
			d.Add(1, []Change{own(1), {Inserted, entry(1)}})
			d.Add(2, []Change{own(2), {Deleted, entry(1)}})
		}, "map[1:[UPDATE entry 1]]", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Delivered{}
			test.got(d)
			if got := fmt.Sprint(d.Unseen(history)); got != test.want {
				t.Errorf("unseen are %s, want %s", got, test.want)
			}
			if d.Duplicates() != test.duplicates {
				t.Errorf("%d came twice, want %d", d.Duplicates(), test.duplicates)
			}
		})
	}
}
