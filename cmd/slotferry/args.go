package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// checkArgs looks at the whole command line before urfave/cli does, and reports
// all that is wrong with it. urfave/cli stops at the first unknown flag, ignores
// flags behind an argument, and takes a flag for the value of the one before.
// It returns which flags are there.
func checkArgs(app *cli.App, args []string) (given, error) {
	s := argScan{path: "slotferry", given: given{}, flags: map[string]cli.Flag{}, commands: app.Commands}
	s.learn([]cli.Flag{cli.HelpFlag})
	s.learn(app.Flags)
	if len(args) > 0 {
		s.scan(args[1:])
	}
	if !s.given["help"] {
		s.checkEnvironment()
	}
	return s.given, usageError(errors.Join(s.problems...))
}

// argScan is the state of one walk over the arguments.
type argScan struct {
	path     string // the command so far
	command  *cli.Command
	commands []*cli.Command
	flags    map[string]cli.Flag // by name and alias
	given    given
	behind   string // the first argument: no flag may follow it
	extra    bool   // there were more arguments than the command takes
	problems []error
}

func (s *argScan) problem(hint, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if hint != "" {
		err = withHint(err, hint)
	}
	s.problems = append(s.problems, err)
}

func (s *argScan) help() string { return fmt.Sprintf("Run %q.", s.path+" --help") }

// at opens a message with the command it is about.
func (s *argScan) at() string {
	if _, command, found := strings.Cut(s.path, " "); found {
		return command + ": "
	}
	return ""
}

func (s *argScan) learn(flags []cli.Flag) {
	for _, f := range flags {
		for _, name := range f.Names() {
			s.flags[name] = f
		}
	}
}

func (s *argScan) scan(args []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			for _, rest := range args[i+1:] {
				s.argument(rest)
			}
			return
		case strings.HasPrefix(arg, "-") && arg != "-":
			if s.flag(arg, args[i+1:]) {
				i++
			}
		case len(s.commands) > 0:
			if !s.enter(arg) {
				return // what follows would be judged by the wrong flags
			}
		default:
			s.argument(arg)
		}
	}
}

// enter goes into a command.
func (s *argScan) enter(name string) bool {
	for _, c := range s.commands {
		if c.HasName(name) {
			s.path += " " + c.Name
			s.command, s.commands = c, c.Subcommands
			s.learn(c.Flags)
			return true
		}
	}
	var names []string
	for _, c := range s.commands {
		names = append(names, c.Name)
	}
	s.problem(didYouMean(name, names, "")+s.help(), "%sunknown command %q", s.at(), name)
	return false
}

func (s *argScan) argument(arg string) {
	switch {
	case s.command == nil || s.command.ArgsUsage == "":
		s.problem(s.help(), "%stakes no argument, but %q is given", s.at(), arg)
	case s.behind != "" && !s.extra:
		s.extra = true
		s.problem(s.help(), "%stakes one argument, but %q is given too", s.at(), arg)
	}
	if s.behind == "" {
		s.behind = arg
	}
}

// flag judges one flag, and reports whether it takes the next argument with it.
func (s *argScan) flag(arg string, rest []string) (took bool) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	f, known := s.flags[name]
	if !known {
		s.problem(didYouMean(name, slices.Sorted(maps.Keys(s.flags)), "--")+s.help(), "%sunknown flag %q", s.at(), "--"+name)
		return !hasValue && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && len(s.commands) == 0 // probably its value
	}
	if s.behind != "" {
		s.problem("Put all flags before the argument.", "%sflag --%s stands behind the argument %q", s.at(), name, s.behind)
	}
	if s.given[f.Names()[0]] && !repeatable(f) {
		s.problem("", "%s--%s is given twice", s.at(), name)
	}
	s.given[f.Names()[0]] = true
	if _, isBool := f.(*cli.BoolFlag); isBool {
		if _, err := strconv.ParseBool(value); hasValue && err != nil {
			s.problem("", "--%s: %q is neither true nor false", name, value)
		}
		return false
	}
	switch {
	case hasValue:
		return false
	case len(rest) == 0:
		s.problem("", "--%s needs a value", name)
		return false
	case s.isFlag(rest[0]):
		s.problem("", "--%s needs a value, but %s follows it", name, rest[0])
		return false
	}
	return true
}

// isFlag reports whether an argument is one of the flags known here, and so was
// hardly meant as the value of another.
func (s *argScan) isFlag(arg string) bool {
	bare, dashed := strings.CutPrefix(arg, "--")
	name, _, _ := strings.Cut(bare, "=")
	_, known := s.flags[name]
	return dashed && known
}

func repeatable(f cli.Flag) bool {
	_, ok := f.(*cli.StringSliceFlag)
	return ok
}

// checkEnvironment looks at the flags that urfave/cli itself parses from the
// environment.
func (s *argScan) checkEnvironment() {
	if s.command == nil {
		return
	}
	for _, f := range s.command.Flags {
		b, ok := f.(*cli.BoolFlag)
		if !ok {
			continue
		}
		for _, name := range b.EnvVars {
			value := os.Getenv(name)
			if _, err := strconv.ParseBool(value); value != "" && err != nil {
				s.problem("", "%s: %q is neither true nor false", name, value)
			}
		}
	}
}
