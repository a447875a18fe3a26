package main

import (
	"testing"
)

func TestChangeText(t *testing.T) {
	for _, c := range []change{{inserted, entry(1)}, {updated, row{"account", 199}}, {deleted, entry(1 << 40)}} {
		got, err := parseChange(c.String())
		if err != nil || got != c {
			t.Errorf("%v is read as %v, %v", c, got, err)
		}
	}
	for _, text := range []string{"", "INSERT entry", "INSERT entry x"} {
		if c, err := parseChange(text); err == nil {
			t.Errorf("%q is read as %v", text, c)
		}
	}
}

func TestDecodedChange(t *testing.T) {
	for _, test := range []struct {
		line string
		want change
		bad  bool
	}{
		{line: "table public.entry: INSERT: id[bigint]:7 account[bigint]:12 note[text]:'a: b'",
			want: change{inserted, entry(7)}},
		{line: "table public.account: UPDATE: id[bigint]:12 owner[text]:unchanged-toast-datum",
			want: change{updated, row{"account", 12}}},
		{line: "table public.entry: DELETE: id[bigint]:7", want: change{deleted, entry(7)}},
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
	c := newConsumer("s")
	for _, line := range []string{
		"BEGIN", "table public.entry: INSERT: id[bigint]:1", "table public.journal: INSERT: id[bigint]:10",
		"BEGIN", "table public.entry: INSERT: id[bigint]:2", "table public.journal: INSERT: id[bigint]:11", "COMMIT",
	} {
		if err := c.takeLine(line, 0x100); err != nil {
			t.Fatal(err)
		}
	}
	if c.got[10] != nil || c.got[11] == nil || !c.got[11].changes[change{inserted, entry(2)}] ||
		c.got[11].changes[change{inserted, entry(1)}] {
		t.Errorf("got %v", c.got)
	}
	if c.position() != 0x100 {
		t.Errorf("position is %v", c.position())
	}
}
