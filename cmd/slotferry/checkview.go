package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slotferry/slotferry/internal/preflight"
	"github.com/slotferry/slotferry/internal/table"
)

// checkText writes the findings for people: a line each, a summary, and what to do
// next.
func checkText(doc *checkDocument, color bool) string {
	t := table.Table{Header: []string{"", "SERVER", "SETTING", "VALUE", "SHOULD BE"}, Color: color}
	counts := map[preflight.Level]int{}
	for _, f := range doc.Findings {
		counts[f.Level]++
		word, c := levelWord(f.Level)
		row := table.Text(word, string(f.Side), f.Setting, f.Value, f.Want)
		row[0].Color = c
		t.Rows = append(t.Rows, row)
	}
	var out strings.Builder
	_ = t.Write(&out) // a strings.Builder takes everything
	fmt.Fprintf(&out, "\n%d ok, %d failed, %d warnings, %d not checked\n",
		counts[preflight.OK], counts[preflight.Fail], counts[preflight.Warn], counts[preflight.Skip])
	if doc.Helpers > 0 {
		fmt.Fprintln(&out, doc.Slots)
	}
	writeToDo(&out, doc.Findings)
	if doc.Helpers == 0 && doc.OK {
		out.WriteString(nextSteps)
	}
	return out.String()
}

// nextSteps are for who has prepared the servers and runs nothing yet.
const nextSteps = `
No helper was asked, so this says nothing of slots. Next:

1. Start slotferry beside the standby, with --http 127.0.0.1:8432. The simplest:
   "slotferry solo" without --listen, which leaves replication as it is.
   "slotferry solo --help", "slotferry relay --help" have examples.
2. With --listen, point primary_conninfo of the standby at it, and reload.
3. Check again with --url 127.0.0.1:8432: it says which slots are ready.
`

// writeToDo lists what to change, in the order in which a person would do it, and
// then what could not be looked at.
func writeToDo(out *strings.Builder, findings []preflight.Finding) {
	writeChanges(out, "To do, in this order:", findings, preflight.Fail, preflight.Warn)
	writeChanges(out, "Not checked:", findings, preflight.Skip)
}

func writeChanges(out *strings.Builder, title string, findings []preflight.Finding, levels ...preflight.Level) {
	n := 0
	for _, f := range findings {
		if f.Change == "" || !slices.Contains(levels, f.Level) {
			continue
		}
		if n++; n == 1 {
			fmt.Fprintf(out, "\n%s\n\n", title)
		}
		restart := ""
		if f.Restart {
			restart = " (needs a restart)"
		}
		number := fmt.Sprintf("%d. ", n)
		fmt.Fprintf(out, "%s%s, %s%s\n", number, f.Side, f.Setting, restart)
		indented(out, strings.Repeat(" ", len(number)), f.Change, len(number))
	}
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
