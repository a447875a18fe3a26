package bank

import (
	"testing"
)

func entry(id int64) Row { return Row{"entry", id} }

func TestChangeText(t *testing.T) {
	for _, c := range []Change{{Inserted, entry(1)}, {Updated, Row{"account", 199}}, {Deleted, entry(1 << 40)}} {
		got, err := ParseChange(c.String())
		if err != nil || got != c {
			t.Errorf("%v is read as %v, %v", c, got, err)
		}
	}
	for _, text := range []string{"", "INSERT entry", "INSERT entry x"} {
		if c, err := ParseChange(text); err == nil {
			t.Errorf("%q is read as %v", text, c)
		}
	}
}

func TestDecodedChange(t *testing.T) {
	for _, test := range []struct {
		line string
		want Change
		bad  bool
	}{
		{line: "table public.entry: INSERT: id[bigint]:7 account[bigint]:12 note[text]:'a: b'",
			want: Change{Inserted, entry(7)}},
		{line: "table public.account: UPDATE: id[bigint]:12 owner[text]:unchanged-toast-datum",
			want: Change{Updated, Row{"account", 12}}},
		{line: "table public.entry: DELETE: id[bigint]:7", want: Change{Deleted, entry(7)}},
		{line: "table public.entry: DELETE: (no-tuple-data)", bad: true},
		{line: "table public.entry: TRUNCATE: (no-flags)", bad: true},
		{line: "message: transactional: 1 prefix: a, sz: 1 content:b", bad: true},
		{line: "", bad: true},
	} {
		got, err := parseDecoded(test.line)
		if (err != nil) != test.bad || !test.bad && got != test.want {
			t.Errorf("%q is read as %v, %v", test.line, got, err)
		}
	}
}

// A transaction that the end of a connection cut off does not count.
func TestHalfATransactionDoesNotCount(t *testing.T) {
	c := NewConsumer("postgres", "s")
	for _, line := range []string{
		"BEGIN", "table public.entry: INSERT: id[bigint]:1", "table public.journal: INSERT: id[bigint]:10",
		"BEGIN", "table public.entry: INSERT: id[bigint]:2", "table public.journal: INSERT: id[bigint]:11", "COMMIT",
	} {
		if err := c.takeLine(line, 0x100); err != nil {
			t.Fatal(err)
		}
	}
	if c.got[10] != nil || c.got[11] == nil || !c.got[11].Changes[Change{Inserted, entry(2)}] ||
		c.got[11].Changes[Change{Inserted, entry(1)}] {
		t.Errorf("got %v", c.got)
	}
	if c.Position() != 0x100 {
		t.Errorf("position is %v", c.Position())
	}
}
