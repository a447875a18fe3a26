package decoder

import (
	"errors"
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
