package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeFence = regexp.MustCompile("(?ms)^```.*?^```")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped   = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors are what the headings of a page can be linked by, as GitHub makes them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(codeFence.ReplaceAllString(page, ""), -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// badLinks returns the links of a page that lead nowhere. read returns the text of a
// file, "" of a directory.
func badLinks(page, text string, read func(path string) (string, error)) []string {
	var bad []string
	for _, m := range link.FindAllStringSubmatch(codeFence.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		path, anchor, _ := strings.Cut(m[1], "#")
		target := text
		if path != "" {
			var err error
			if target, err = read(filepath.Join(filepath.Dir(page), path)); err != nil {
				bad = append(bad, page+" links to "+m[1]+", which is not there")
				continue
			}
		}
		if anchor != "" && (path == "" || strings.HasSuffix(path, ".md")) && !anchors(target)[anchor] {
			bad = append(bad, page+" links to "+m[1]+", and there is no such heading")
		}
	}
	return bad
}

// TestLinksOfTheDocs follows every link from page to page, and sees that every page
// can be found from the index.
func TestLinksOfTheDocs(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (string, error) {
		full := filepath.Join(root, path)
		if info, err := os.Stat(full); err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(full)
		return string(text), err
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	index, err := read("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		page, err := filepath.Rel(root, full)
		if err != nil {
			t.Fatal(err)
		}
		text, err := read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range badLinks(page, text, read) {
			t.Error(bad)
		}
		if name := filepath.Base(page); filepath.Dir(page) == "docs" && name != "README.md" && !strings.Contains(index, "("+name) {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// TestBadLinksAreFound checks the check.
func TestBadLinksAreFound(t *testing.T) {
	read := func(path string) (string, error) {
		if path == "docs/there.md" {
			return "# A page\n## It's `here`, now\n```\n# not this\n```\n", nil
		}
		return "", os.ErrNotExist
	}
	text := "# Own\n[a](there.md) [b](there.md#its-here-now) [c](#own) [d](https://x/y)\n```\n[f](nowhere.md)\n```\n" +
		"[1](nowhere.md) [2](there.md#not-this) [3](#other)\n"
	if got := badLinks("docs/page.md", text, read); len(got) != 3 {
		t.Errorf("bad links are %q", got)
	}
}
