package decoder

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// allReasons are the Reason constants of reason.go, read from its source so that
// a new one cannot be forgotten.
var allReasons = reasonsOfSource()

func reasonsOfSource() []Reason {
	f, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		panic(err)
	}
	var list []Reason
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				panic(err)
			}
			list = append(list, Reason(text))
		}
		return true
	})
	return list
}

func TestEveryReasonHasAHint(t *testing.T) {
	if len(allReasons) < 40 {
		t.Fatalf("found %d reasons in reason.go", len(allReasons))
	}
	seen := map[Reason]bool{}
	for _, r := range allReasons {
		if seen[r] {
			t.Errorf("reason %q is there twice", r)
		}
		seen[r] = true
		hint := r.Hint()
		switch {
		case r == ReasonNone:
			if hint != "" {
				t.Errorf("no reason has hint %q", hint)
			}
		case hint == "":
			t.Errorf("reason %q has no hint", r)
		case len(hint) > 160:
			t.Errorf("hint of %q has %d characters, want 160 at most", r, len(hint))
		case !strings.HasSuffix(hint, "."):
			t.Errorf("hint of %q is not a sentence: %q", r, hint)
		}
	}
	for r := range hints {
		if !seen[r] {
			t.Errorf("hint for unknown reason %q", r)
		}
	}
}

func TestInvalidationReasonOfALaterServer(t *testing.T) {
	for _, tc := range []struct {
		invalidationReason string
		want               Reason
	}{
		{"rows_removed", ReasonRowsRemoved},
		{"wal_removed", ReasonWALRemoved},
		{"wal_level_insufficient", ReasonWALLevelLow},
		{"idle_timeout", ReasonIdleTimeout},
		{"conflicting", ReasonConflicting},
		{"ready", ReasonConflicting},
		{"something_of_version_21", ReasonConflicting},
	} {
		if got := invalidated(tc.invalidationReason); got != tc.want {
			t.Errorf("invalidated(%q) = %q, want %q", tc.invalidationReason, got, tc.want)
		}
	}
}
