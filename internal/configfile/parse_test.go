package configfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestParse runs the transcripts: a file, and what is read from it.
func TestParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			// A transcript has no room for tabs at the end of lines and the like.
			text := strings.NewReplacer(`\t`, "\t", `\xff`, "\xff", `\0`, "\x00").Replace(d.Input)
			return show(Parse("f.yaml", []byte(text)))
		})
	})
}

func show(entries []Entry, err error) string {
	var out strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&out, "%v %s = %q at %v", e.At, e.Key, e.Value.Text, e.Value.At)
		if e.Value.List {
			out.WriteString(" list")
		}
		if e.Value.Bool {
			out.WriteString(" bool")
		}
		out.WriteString("\n")
	}
	if err == nil {
		return out.String()
	}
	for _, problem := range err.(interface{ Unwrap() []error }).Unwrap() {
		fmt.Fprintf(&out, "%v\n", problem)
		if h := problem.(*Error).Hint(); h != "" {
			fmt.Fprintf(&out, "  hint: %s\n", h)
		}
	}
	return out.String()
}

func TestParseBoundsItsInput(t *testing.T) {
	if _, err := Parse("f.yaml", []byte("a: "+strings.Repeat("x", MaxSize))); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error is %v", err)
	}
}

// FuzzParse checks that whatever is in a file, a problem is one that names the
// file, and an entry is one that a setting could be made of.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "---\n", "a: 1\nb: [x, y]\n", "a: {b: c}\n", "a: &x 1\nb: *x\n<<: *x\n", "a: 1\na: 2\n", "a: |\n  x\n", "? [a]\n: b\n", "a: 1\n---\nb: 2\n",
		"%YAML 1.1\n---\na: !!binary aGk=\n", "\xff\xfea\x00", "a: [1\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := Parse("f.yaml", text)
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.Key] || e.At.Line < 1 || e.Value.At.Line < e.At.Line || !e.Value.List && len(e.Value.Text) != 1 {
				t.Errorf("entry %+v", e)
			}
			seen[e.Key] = true
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f.yaml") {
			t.Errorf("error is %v", err)
		}
	})
}
