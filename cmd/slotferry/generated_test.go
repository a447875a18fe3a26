package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var rewriteGenerated = flag.Bool("rewrite-generated", false, "write the files that are made from the commands")

// packaging is where the files are that a package has beside the program.
const packaging = "../../internal/packaging"

// TestGeneratedFilesAreFresh compares manual pages and completions with what the
// commands say now.
func TestGeneratedFilesAreFresh(t *testing.T) {
	t.Parallel()
	files := manualPages()
	for shell, script := range completionScripts {
		files["completion/slotferry."+shell] = script(completions("", newApp(streams{}).Commands))
	}
	for _, dir := range []string{"man", "completion"} {
		present, err := filepath.Glob(filepath.Join(packaging, dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range present {
			if _, made := files[dir+"/"+filepath.Base(path)]; made {
				continue
			}
			if !*rewriteGenerated {
				t.Errorf("%s is of no command: run make generate", path)
			} else if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(packaging, name)
		if *rewriteGenerated {
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if err == nil {
				err = os.WriteFile(path, []byte(files[name]), 0o644)
			}
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if have, err := os.ReadFile(path); err != nil || string(have) != files[name] {
			t.Errorf("%s is not what the commands say, %v: run make generate", path, err)
		}
	}
}
