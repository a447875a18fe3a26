package main

import (
	"fmt"
	"strings"

	"github.com/slotferry/slotferry/internal/preflight"
	"github.com/slotferry/slotferry/internal/table"
)

// checkText writes the findings for people: a line each, and a summary.
func checkText(doc *checkDocument, color bool) string {
	t := table.Table{Header: []string{"", "SERVER", "SETTING", "VALUE", "SHOULD BE", "TO CHANGE IT"}, Color: color}
	counts := map[preflight.Level]int{}
	helper := false
	for _, f := range doc.Findings {
		counts[f.Level]++
		helper = helper || f.Side == preflight.Helper
		change := f.Change
		if f.Restart && change != "" {
			change += " (needs a restart)"
		}
		word, c := levelWord(f.Level)
		row := table.Text(word, string(f.Side), f.Setting, f.Value, f.Want, change)
		row[0].Color = c
		t.Rows = append(t.Rows, row)
	}
	var out strings.Builder
	_ = t.Write(&out) // a strings.Builder takes everything
	fmt.Fprintf(&out, "\n%d ok, %d failed, %d warnings, %d not checked\n",
		counts[preflight.OK], counts[preflight.Fail], counts[preflight.Warn], counts[preflight.Skip])
	if helper {
		fmt.Fprintln(&out, doc.Slots)
	} else if doc.OK {
		fmt.Fprintln(&out, "no helper was asked: --url of one says which slots are ready")
	}
	return out.String()
}

func levelWord(l preflight.Level) (string, table.Color) {
	switch l {
	case preflight.OK:
		return "ok", table.Good
	case preflight.Fail:
		return "FAIL", table.Bad
	case preflight.Warn:
		return "warn", table.Wait
	}
	return "-", table.Dim
}
