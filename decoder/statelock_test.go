package decoder

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestTwoHelpersOnOneStateDirectory(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockStateDir(dir); !errors.Is(err, ErrStateDirInUse) {
		t.Errorf("a second lock got %v", err)
	}
	unlock()
	again, err := lockStateDir(dir)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	again()
}

// In a directory that everybody can write to, anybody could put a ledger.
func TestStateDirectoryOfEverybodyIsRefused(t *testing.T) {
	for mode, refused := range map[fs.FileMode]bool{0o700: false, 0o750: false, 0o770: false, 0o755: false, 0o777: true, 0o702: true, 0o777 | fs.ModeSticky: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		unlock, err := lockStateDir(dir)
		var open *openStateDirError
		if errors.As(err, &open) != refused {
			t.Errorf("mode %v: %v", mode, err)
		}
		if refused && (!strings.Contains(open.Hint(), "chmod") || !strings.Contains(err.Error(), dir)) {
			t.Errorf("mode %v: %v (hint: %s)", mode, err, open.Hint())
		}
		if err == nil {
			unlock()
		}
	}
}
