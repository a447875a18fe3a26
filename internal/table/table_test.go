package table

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table := Table{
		Header: []string{"SLOT", "DATABASE", "LAG", "STATE", "REASON"},
		Right:  []bool{false, false, true},
		Rows: [][]Cell{
			Text("orders", "shop", "0 B", "ready", ""),
			Text("a", "データ", "16 MB", "pending", "subscriber_behind"),
			Text("e\u0301", "Ünï", "1 kB"),
			{{Text: "x"}, {Text: "bad\nname\x1b[31m"}, {}, {Text: "blocked", Color: Bad}},
		},
	}
	const want = `SLOT    DATABASE               LAG  STATE    REASON
orders  shop                   0 B  ready
a       データ               16 MB  pending  subscriber_behind
é       Ünï                   1 kB
x       bad\x0aname\x1b[31m         blocked
`
	for _, colour := range []bool{false, true} {
		table.Color = colour
		var out strings.Builder
		if err := table.Write(&out); err != nil {
			t.Fatal(err)
		}
		wanted := want
		if colour {
			wanted = strings.Replace(want, "blocked", string(Bad)+"blocked"+reset, 1)
		}
		if got := out.String(); strings.ReplaceAll(got, "e\u0301", "é") != wanted {
			t.Errorf("colour %v, got:\n%q\nwant:\n%q", colour, got, wanted)
		}
	}
}

func TestWidth(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{{"", 0}, {"abc", 3}, {"Ünï", 3}, {"データ", 6}, {"e\u0301", 1}, {"ａ", 2}, {"a\u200bb", 2}} {
		if got := Width(test.text); got != test.want {
			t.Errorf("Width(%q) = %d, want %d", test.text, got, test.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"plain text, Ünï", "plain text, Ünï"},
		{"\x1b]0;title\a", `\x1b]0;title\x07`},
		{"a\tb\r\n", `a\x09b\x0d\x0a`},
		{"\xff", `\xff`},
		{"\u202eevil", `\u202eevil`},
		{"\u009b31m", `\u009b31m`},
		{"\ufffd", "\ufffd"},
	} {
		if got := Printable(test.text); got != test.want {
			t.Errorf("Printable(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}
