package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// envPrefix begins the names of variables that set flags.
const envPrefix = "SLOTFERRY_"

// otherVariables are variables that are no settings, without the prefix, and nobody's
// mistake: those of this project's tests and benchmarks, and those that Kubernetes
// and container links make of a service's name, as SLOTFERRY_SERVICE_HOST and
// SLOTFERRY_RELAY_PORT_6432_TCP_ADDR.
var otherVariables = regexp.MustCompile(`^((TEST|BENCH)_.*|PG_BINDIRS|REQUIRE_TOOLS|MUTANT` +
	`|(.+_)?SERVICE_(HOST|PORT(_.+)?)|(.+_)?PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// stray is a variable that sets nothing, with what to do about it.
type stray struct{ variable, hint string }

// strayVariables finds variables of the environment that look like settings and are
// those of no command: misspelt, they would be ignored. A variable of another
// command is fine, since one environment may serve several.
func strayVariables(environ []string) (list []stray) {
	ours := func(variable string) bool { return strings.HasPrefix(variable, envPrefix) }
	if !slices.ContainsFunc(environ, ours) {
		return nil // as most often: the commands need not be made a second time
	}
	known := map[string]string{} // flag by name without the prefix
	var walk func([]*cli.Command)
	walk = func(commands []*cli.Command) {
		for _, c := range commands {
			for _, f := range c.Flags {
				name := f.Names()[0]
				known[strings.TrimPrefix(envName(name), envPrefix)] = name
			}
			walk(c.Subcommands)
		}
	}
	walk(newApp(streams{}).Commands)
	names := slices.Sorted(maps.Keys(known))
	for _, variable := range environ {
		variable, _, _ = strings.Cut(variable, "=")
		name := strings.TrimPrefix(variable, envPrefix)
		if _, ok := known[name]; !ours(variable) || ok || otherVariables.MatchString(name) {
			continue
		}
		hint := "--help of each command has the names of all flags."
		if near := nearest(strings.ToUpper(name), names); near != "" {
			hint = fmt.Sprintf("Did you mean %s? It stands for --%s.", envPrefix+near, known[near])
		}
		list = append(list, stray{variable, hint})
	}
	slices.SortFunc(list, func(a, b stray) int { return strings.Compare(a.variable, b.variable) })
	return list
}

// warnOfStrays says so where there is no log: of a command that keeps running, when
// it does not come to that.
func (s *settings) warnOfStrays() {
	for _, v := range strayVariables(os.Environ()) {
		narrow(s.c.App.ErrWriter, "slotferry: "+oneLine(v.variable)+" is ignored: no flag has that name")
		narrow(s.c.App.ErrWriter, "hint: "+v.hint)
	}
}
