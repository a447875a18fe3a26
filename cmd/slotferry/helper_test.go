package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
)

// A second helper on a state directory said that it is in use, and not what to do.
func TestStateDirHint(t *testing.T) {
	taken := fmt.Errorf("lock state directory /x: %w", decoder.ErrStateDirInUse)
	if hint := hintOf(fmt.Errorf("helper: %w", stateDirHint(taken))); !strings.Contains(hint, "--state-dir") {
		t.Errorf("hint %q", hint)
	}
	for _, err := range []error{nil, errors.New("x")} {
		if got := stateDirHint(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
