package slotcatalog

import (
	"slices"
	"testing"
)

func TestSplitPluginList(t *testing.T) {
	for list, want := range map[string][]string{
		"":                                {},
		" , ":                             {},
		"pgoutput, test_decoding":         {"pgoutput", "test_decoding"},
		"pgoutput,wal2json ":              {"pgoutput", "wal2json"},
		`"a, b" , $libdir/c,"say ""hi"""`: {"a, b", "$libdir/c", `say "hi"`},
		"\n\tpgoutput\n,\n Wal2Json":      {"pgoutput", "Wal2Json"},
		`"never closed, pgoutput`:         {"never closed, pgoutput"},
		"données,データ":                     {"données", "データ"},
	} {
		if got := SplitPluginList(list); !slices.Equal(got, want) || got == nil {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}
