package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectors returns the well-formed test vectors of a kind of message, by path
// without ending.
func vectors(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", kind, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d vectors: %v", len(files), err)
	}
	for i := range files {
		files[i] = strings.TrimSuffix(files[i], ".json")
	}
	return files
}

func contents(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDebugEncodeAndDecodeAreInverse runs every test vector through both.
func TestDebugEncodeAndDecodeAreInverse(t *testing.T) {
	for _, kind := range []string{"slotmessage", "helperreport"} {
		for _, vector := range vectors(t, kind) {
			t.Run(kind+"/"+filepath.Base(vector), func(t *testing.T) {
				wire, text := contents(t, vector+".hex"), contents(t, vector+".json")
				decoded := execute(t, nil, "", "debug", "decode", vector+".hex")
				if decoded.status != 0 || decoded.stdout != text || decoded.stderr != "" {
					t.Fatalf("decode: status %d, stderr %q, stdout:\n%s", decoded.status, decoded.stderr, decoded.stdout)
				}
				if filepath.Base(vector) == "optional-fields" {
					return // holds fields that nobody can write yet
				}
				args := []string{"debug", "encode"}
				if kind == "helperreport" {
					args = append(args, "--report")
				}
				if filepath.Base(vector) == "several-parts" {
					args = append(args, "--part-size", "256")
				}
				encoded := execute(t, nil, text, args...)
				if encoded.status != 0 || encoded.stdout != wire || encoded.stderr != "" {
					t.Fatalf("encode: status %d, stderr %q, stdout:\n%s", encoded.status, encoded.stderr, encoded.stdout)
				}
				for _, format := range []string{"base64", "raw"} {
					if format == "raw" && filepath.Base(vector) == "several-parts" {
						continue
					}
					encoded := execute(t, nil, text, append(args, "--format", format)...)
					decoded := execute(t, nil, encoded.stdout, "debug", "decode", "--format", format, "-")
					if encoded.status != 0 || decoded.status != 0 || decoded.stdout != text {
						t.Errorf("%s: status %d and %d, %s %s", format, encoded.status, decoded.status, encoded.stderr, decoded.stderr)
					}
				}
			})
		}
	}
}

func TestDebugDecodeNamesDamage(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "slotmessage")
	for _, test := range []struct{ file, want string }{
		{"bad-checksum", "checksum does not match"},
		{"bad-magic", "magic bytes missing"},
		{"bad-version", "unknown version"},
		{"bad-cut-chunk", "decode SlotMessage"},
	} {
		got := execute(t, nil, "", "debug", "decode", filepath.Join(dir, test.file+".hex"))
		if got.status != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", test.file, got.status, got.stdout, got.stderr)
		}
	}
	for _, test := range []struct {
		name, stdin, want string
		args              []string
	}{
		{"empty", "", "no body to decode", []string{"debug", "decode"}},
		{"not hex", "zz", "read body 1", []string{"debug", "decode"}},
		{"unfinished", firstBlock(contents(t, filepath.Join(dir, "several-parts.hex"))), "is not whole", []string{"debug", "decode"}},
		{"not JSON", "{", "unexpected end of JSON", []string{"debug", "encode"}},
		{"unknown field", `{"slotz": []}`, "slotz", []string{"debug", "encode"}},
		{"raw of several parts", contents(t, filepath.Join(dir, "several-parts.json")), "raw has room for one",
			[]string{"debug", "encode", "--format", "raw", "--part-size", "256"}},
		{"missing file", "", "no such file", []string{"debug", "decode", "/nonexistent"}},
	} {
		got := execute(t, nil, test.stdin, test.args...)
		if got.status != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", test.name, got.status, got.stdout, got.stderr)
		}
	}
}

func firstBlock(text string) string {
	first, _, _ := strings.Cut(text, "\n\n")
	return first
}
