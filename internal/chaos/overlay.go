package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Overlay writes other texts for source files, by their paths, into dir, and
// returns the flags of "go build" that compile those instead.
func Overlay(dir string, texts map[string]string) ([]string, error) {
	replace := map[string]string{}
	for original, text := range texts {
		path := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(original)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write overlay: %w", err)
		}
		replace[original] = path
	}
	list := filepath.Join(dir, "overlay.json")
	raw, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(list, raw, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write overlay: %w", err)
	}
	return []string{"-overlay", list}, nil
}
