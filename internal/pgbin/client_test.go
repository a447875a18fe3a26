package pgbin

import (
	"os/exec"
	"strings"
	"testing"
)

func TestClientToolsRun(t *testing.T) {
	for _, major := range []int{17, 18} {
		inst, err := ClientTools(t.Context(), major, Config{})
		if err != nil {
			t.Errorf("PostgreSQL %d: %v", major, err)
			continue
		}
		if inst.Major != major {
			t.Errorf("asked for %d, got %s", major, inst.Version)
		}
		for _, program := range clientPrograms {
			out, err := exec.CommandContext(t.Context(), inst.Program(program), "--version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "(PostgreSQL) "+inst.Version) {
				t.Errorf("%s --version: %v, %s", program, err, out)
			}
		}
	}
}
