package layout

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page that names a test as its proof names one that there is.
func TestDocsNameTestsThatExist(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	tests, pages := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		into := strings.HasSuffix(name, "_test.go")
		if !into && filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !into {
			pages[name] = string(text)
			return nil
		}
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for name, text := range pages {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			count++
			if !tests[match[1]] {
				t.Errorf("%s names %s, which is no test", name, match[1])
			}
		}
	}
	if count < 20 {
		t.Errorf("found %d names of tests in %d pages: this test looks in the wrong place", count, len(pages))
	}
}
