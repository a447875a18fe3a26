// Package layout holds tests of how the packages of this module may depend on
// each other, and of what only a command may do.
package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/slotferry/slotferry"

// source is one file that goes into a product or a tool: tests are not looked at.
type source struct {
	pkg  string // directory in the module, slashes
	name string
	file *ast.File
}

func parse(t *testing.T, pkg, name string, text any) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{pkg, name, file}
}

// readModule parses the module this test is part of.
func readModule(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var sources []source
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != root):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources = append(sources, parse(t, path.Dir(filepath.ToSlash(rel)), filepath.ToSlash(rel), text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 20 {
		t.Fatalf("found %d files below %s: this test looks in the wrong place", len(sources), root)
	}
	return sources
}

// imports returns the paths a file imports; those of this module without its name.
func (s source) imports() []string {
	var list []string
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the compiler says it better
		}
		if own, ok := strings.CutPrefix(p, module+"/"); ok {
			p = "./" + own
		}
		list = append(list, p)
	}
	return list
}

// reaches returns a chain of imports within the module from one package to
// another, nil when there is none.
func reaches(sources []source, from, to string) []string {
	graph := map[string][]string{}
	for _, s := range sources {
		graph[s.pkg] = append(graph[s.pkg], s.imports()...)
	}
	seen := map[string]bool{}
	var walk func(pkg string) []string
	walk = func(pkg string) []string {
		if pkg == to {
			return []string{pkg}
		}
		if seen[pkg] {
			return nil
		}
		seen[pkg] = true
		for _, p := range graph[pkg] {
			if own, ok := strings.CutPrefix(p, "./"); ok {
				if chain := walk(own); chain != nil {
					return append([]string{pkg}, chain...)
				}
			}
		}
		return nil
	}
	return walk(from)
}

// forbidden are the directions that no chain of imports may take.
var forbidden = []struct{ from, to string }{
	{"relay", "decoder"}, {"decoder", "relay"},
	{"protocol", "relay"}, {"protocol", "decoder"},
	{"relay", "cmd/slotferry"}, {"decoder", "cmd/slotferry"},
	// What starts servers belongs to tests and to the demo.
	{"cmd/slotferry", "internal/cluster"}, {"cmd/slotferry", "internal/pgbin"},
	{"cmd/slotferry", "internal/poll"}, {"cmd/slotferry", "internal/faultproxy"},
}

// protocolImports are all that package protocol may import: no I/O, no clock, no
// logger, no context.
var protocolImports = []string{
	"bytes", "encoding", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "hash/crc32",
	"iter", "maps", "math", "math/bits", "slices", "strconv", "strings", "time", "unicode", "unicode/utf8", "unsafe", "cmp",
	"github.com/jackc/pgio",
}

// clock are the names of package time that read or wait for the clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// isProgram reports whether a package may read flags and environment, and end
// the process: a command, or what tests are started with. (internal/poll is used
// by the demo too, and may only end a test.)
func isProgram(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || slices.Contains([]string{
		"internal/demo", "internal/bench", "internal/slotbench", "internal/chaos/rounds", "internal/cluster/clustertest",
	}, pkg)
}

// violations returns what the sources do and may not.
func violations(sources []source) []string {
	var list []string
	for _, f := range forbidden {
		if chain := reaches(sources, f.from, f.to); chain != nil {
			list = append(list, fmt.Sprintf("%s must not depend on %s: %s", f.from, f.to, strings.Join(chain, " -> ")))
		}
	}
	for _, s := range sources {
		for _, p := range s.imports() {
			if why := s.mayNotImport(p); why != "" {
				list = append(list, fmt.Sprintf("%s imports %s: %s", s.name, p, why))
			}
		}
		list = append(list, s.calls()...)
	}
	return list
}

func (s source) mayNotImport(p string) string {
	switch {
	case s.pkg == "protocol" && !slices.Contains(protocolImports, p):
		return "package protocol is pure"
	case strings.HasPrefix(p, "./cmd/"):
		return "nothing imports a command"
	case p == "log" || p == "log/slog":
		return "logging is zerolog's"
	case !isProgram(s.pkg) && (p == "flag" || strings.HasPrefix(p, "github.com/urfave/cli")):
		return "only a command reads flags"
	case !isProgram(s.pkg) && p == "testing":
		return "only tests do"
	case strings.HasPrefix(p, "./internal/status") && !isProgram(s.pkg) && !strings.HasPrefix(s.pkg, "internal/"):
		return "the status document is made by commands"
	}
	return ""
}

// calls finds uses of names that are not for this package.
func (s source) calls() []string {
	var list []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && variableMessage(call) {
			list = append(list, fmt.Sprintf("%s logs a message that is not constant: put what varies into a field", s.name))
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of := ""
		if id, ok := sel.X.(*ast.Ident); ok {
			of = id.Name
		}
		name := of + "." + sel.Sel.Name
		switch {
		case s.pkg == "protocol" && of == "time" && slices.Contains(clock, sel.Sel.Name):
			list = append(list, fmt.Sprintf("%s uses %s: package protocol knows no clock", s.name, name))
		case name == "os.Exit" && s.file.Name.Name != "main":
			list = append(list, fmt.Sprintf("%s uses os.Exit: only a command ends the process", s.name))
		case of == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "Setenv", "ExpandEnv"}, sel.Sel.Name) && !isProgram(s.pkg):
			list = append(list, fmt.Sprintf("%s uses %s: only a command reads the environment", s.name, name))
		case sel.Sel.Name == "Fatal" && !isProgram(s.pkg) && s.pkg != "internal/poll", sel.Sel.Name == "Fatal" && of == "log":
			list = append(list, fmt.Sprintf("%s uses Fatal: return the error", s.name))
		}
		return true
	})
	return list
}

// variableMessage finds zerolog's Msgf, and a Msg of a text that is put together:
// who looks for a line in a log looks for its message.
func variableMessage(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch sel.Sel.Name {
	case "Msgf":
		return true
	case "Msg":
		switch call.Args[0].(type) {
		case *ast.BasicLit, *ast.Ident:
			return false
		}
		return true
	}
	return false
}

func TestModuleKeepsItsLayout(t *testing.T) {
	for _, v := range violations(readModule(t)) {
		t.Error(v)
	}
}

// TestRulesFindViolations checks that each rule sees what it is for.
func TestRulesFindViolations(t *testing.T) {
	for _, test := range []struct{ name, pkg, text, want string }{
		{"relay to decoder", "relay", `import _ "` + module + `/decoder"`, "relay must not depend on decoder: relay -> decoder"},
		{"decoder to relay by another", "decoder", `import _ "` + module + `/internal/bridge"`,
			"decoder must not depend on relay: decoder -> internal/bridge -> relay"},
		{"cluster in the command", "cmd/slotferry", `import _ "` + module + `/internal/cluster"`, "cmd/slotferry must not depend on internal/cluster"},
		{"network in protocol", "protocol", `import _ "net"`, "package protocol is pure"},
		{"clock in protocol", "protocol", `import "time"; var now = time.Now`, "knows no clock"},
		{"flags below cmd", "relay", `import _ "flag"`, "only a command reads flags"},
		{"cli below cmd", "internal/table", `import _ "github.com/urfave/cli/v2"`, "only a command reads flags"},
		{"environment below cmd", "decoder", `import "os"; var home = os.Getenv("HOME")`, "only a command reads the environment"},
		{"exit below cmd", "relay", `import "os"; func f() { os.Exit(1) }`, "only a command ends the process"},
		{"fatal", "relay", `func f(l logger) { l.Fatal().Msg("") }`, "return the error"},
		{"message with a value", "relay", `func f(l logger) { l.Info().Msgf("slot %s", "x") }`, "not constant"},
		{"message put together", "relay", `func f(l logger) { l.Info().Msg("slot " + "x") }`, "not constant"},
		{"log", "relay", `import _ "log"`, "logging is zerolog's"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sources := []source{
				parse(t, test.pkg, test.pkg+"/x.go", "package x; "+test.text),
				parse(t, "internal/bridge", "internal/bridge/x.go", `package bridge; import _ "`+module+`/relay"`),
			}
			if got := strings.Join(violations(sources), "\n"); !strings.Contains(got, test.want) {
				t.Errorf("violations are %q, want %q among them", got, test.want)
			}
		})
	}
}
