package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCompletionInTheShell asks each shell what it would offer.
func TestCompletionInTheShell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ shell, ask string }{
		{"bash", `source "$1"; COMP_WORDS=(slotferry rel); COMP_CWORD=1; _slotferry; echo "${COMPREPLY[@]}"
			COMP_WORDS=(slotferry helper --state); COMP_CWORD=2; _slotferry; echo "${COMPREPLY[@]}"
			COMP_WORDS=(slotferry debug dec); COMP_CWORD=2; _slotferry; echo "${COMPREPLY[@]}"`},
		{"fish", `source $argv[1]; complete -C "slotferry rel"; complete -C "slotferry helper --state"; complete -C "slotferry debug dec"`},
		// zsh offers nothing without a terminal: the function's list is asked.
		{"zsh", `autoload -U compinit; compinit -D; source "$1"; [[ $_comps[slotferry] == _slotferry ]] || exit 1
			_describe() { print -l -- ${(P)3} | grep -E "^(rel|--state|dec)"; }
			CURRENT=2; words=(slotferry rel); _slotferry; CURRENT=3; words=(slotferry helper --state); _slotferry
			CURRENT=3; words=(slotferry debug dec); _slotferry`},
	} {
		t.Run(test.shell, func(t *testing.T) {
			t.Parallel()
			shell := needTool(t, test.shell, test.shell)
			path := filepath.Join(t.TempDir(), "script")
			script := completionScripts[test.shell](completions("", newApp(streams{}).Commands))
			if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			args := map[string][]string{"bash": {"--norc", "-c", test.ask, "bash"}, "zsh": {"-f", "-c", test.ask, "zsh"}, "fish": {"-N", "-c", test.ask}}
			cmd := exec.Command(shell, append(args[test.shell], path)...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"relay", "--state-dir", "decode"} {
				if !slices.ContainsFunc(strings.Fields(string(out)), func(w string) bool { w, _, _ = strings.Cut(w, ":"); return w == want }) {
					t.Errorf("does not offer %s, but:\n%s", want, out)
				}
			}
		})
	}
}
