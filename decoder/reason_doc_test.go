package decoder

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

var rewriteDocs = flag.Bool("rewrite-docs", false, "write the table of reasons in docs/operations.md anew")

const (
	operationsDoc = "../docs/operations.md"
	tableBegin    = "-rewrite-docs -->\n"
	tableEnd      = "<!-- end -->"
)

// declaredReasons returns the reasons in the order of reason.go.
func declaredReasons(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []Reason
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind, isNamed := spec.Type.(*ast.Ident)
		if !isNamed || kind.Name != "Reason" {
			return true
		}
		for _, value := range spec.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				reasons = append(reasons, Reason(text))
			}
		}
		return true
	})
	return reasons
}

// Every reason stands in the documentation with what clears it, and has a hint at
// all.
func TestReasonsAreDocumented(t *testing.T) {
	table := "| Reason | What clears it |\n|---|---|\n"
	reasons := declaredReasons(t)
	if len(reasons) != len(hints) {
		t.Errorf("%d reasons are declared, %d have a hint", len(reasons), len(hints))
	}
	for _, r := range reasons {
		if r.Hint() == "" {
			t.Errorf("reason %s has no hint", r)
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
