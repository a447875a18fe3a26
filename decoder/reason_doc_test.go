package decoder

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewriteDocs = flag.Bool("rewrite-docs", false, "write the table of reasons in docs/operations.md anew")

const (
	operationsDoc = "../docs/operations.md"
	tableBegin    = "-rewrite-docs -->\n"
	tableEnd      = "<!-- end -->"
)

// Every reason stands in the documentation with what clears it, in the order of
// reason.go.
func TestReasonsAreDocumented(t *testing.T) {
	table := "| Reason | What clears it |\n|---|---|\n"
	for _, r := range allReasons {
		if r == ReasonNone {
			continue
		}
		table += fmt.Sprintf("| `%s` | %s |\n", r, r.Hint())
	}
	raw, err := os.ReadFile(operationsDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(raw), tableBegin)
	written, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table of reasons between its marks", operationsDoc)
	}
	if *rewriteDocs {
		if err := os.WriteFile(operationsDoc, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != table {
		t.Errorf("the table of reasons in %s is not that of reason.go: run this test with -rewrite-docs\n%s", operationsDoc, table)
	}
}
