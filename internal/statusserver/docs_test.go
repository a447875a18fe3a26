package statusserver

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/statusdoc"
)

// jsonNames collects the names of all fields that a type can have in JSON.
func jsonNames(t reflect.Type, into map[string]bool, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		jsonNames(t.Elem(), into, seen)
		return
	case reflect.Struct:
	default:
		return
	}
	// A slot message and a helper report are documented by package protocol.
	if seen[t] || strings.HasSuffix(t.PkgPath(), "/protocol") || t.PkgPath() == "time" {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			into[name] = true
		}
		jsonNames(t.Field(i).Type, into, seen)
	}
}

// TestDocsNameEverything holds docs/status.md and the code together.
func TestDocsNameEverything(t *testing.T) {
	text, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	jsonNames(reflect.TypeFor[statusdoc.Document](), names, map[reflect.Type]bool{})
	if len(names) < 50 {
		t.Fatalf("found only %d names", len(names))
	}
	_, metrics := fetch(t, serve(t, everything), "GET", "/metrics")
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(metrics, -1) {
		names[m[1]] = true
	}
	for name := range names {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/status.md does not name %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`(slotferry_(?:slot_source|helper|info|ready)[a-z_]*)`").FindAllStringSubmatch(string(text), -1) {
		if !names[m[1]] {
			t.Errorf("docs/status.md names %s, which is not there", m[1])
		}
	}
	if !strings.Contains(string(text), statusdoc.Kind) {
		t.Errorf("docs/status.md does not name the kind %s", statusdoc.Kind)
	}
}
