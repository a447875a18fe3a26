package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/configfile"
	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/secretfile"
)

// configFlags are those of every command that can be configured by a file.
func configFlags() []cli.Flag {
	return []cli.Flag{
		text("config", "", "read settings from `FILE`: YAML, a setting a line, named as the flags are, \"interval: 1s\". A flag wins over the environment, that over the file. SIGHUP reads it again. Not for everybody to read if a CONNINFO in it has a password"),
		yes("print-config", "print what is in force as such a file, with where each value came from, and end; passwords are left out"),
	}
}

// readConfig reads the file in --config. Its entries are those that the command
// knows and whose form is right.
func (s *settings) readConfig() map[string]configfile.Entry {
	path := s.c.String("config")
	if path == "" {
		return nil
	}
	text, err := readFile(path)
	if err != nil {
		s.problem("config", "Give a file that the user slotferry runs as can read.", err)
		return nil
	}
	list, err := configfile.Parse(path, text)
	s.problems = append(s.problems, problems(err)...)
	entries := map[string]configfile.Entry{}
	for _, e := range list {
		if err := judgeEntry(s.c.Command, e); err != nil {
			s.problems = append(s.problems, err)
			continue
		}
		entries[e.Key] = e
		if !holdsSecret(e) {
			continue
		}
		if err := secretfile.CheckMode("it has a password, and", path); err != nil {
			s.problems = append(s.problems, withHint(fmt.Errorf("%v: %s: %w", e.Value.At, e.Key, err),
				"chmod it to u=rw,g=r (0640) or less, or move the password to a password file."))
		}
	}
	return entries
}

// readFile reads a file, and at most a little more than a configuration can have.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, configfile.MaxSize+1))
}

func holdsSecret(e configfile.Entry) bool {
	return slices.ContainsFunc(e.Value.Text, func(t string) bool { return len(conninfo.Secrets(t)) > 0 })
}

// judgeEntry says what is wrong with one entry: its name, or the form of its
// value. What the value means is for whoever reads the flag.
func judgeEntry(command *cli.Command, e configfile.Entry) error {
	f := flagNamed(command.Flags, e.Key)
	switch {
	case slices.Contains(notSettings, e.Key):
		return withHint(fmt.Errorf("%v: %s: this is no setting", e.At, e.Key), "Give it as a flag.")
	case f == nil:
		return withHint(fmt.Errorf("%v: %s: slotferry %s has no such setting", e.At, e.Key, command.Name), notThere(command, e.Key))
	}
	_, isBool := f.(*cli.BoolFlag)
	switch v := e.Value; {
	case v.List && !repeatable(f):
		return withHint(fmt.Errorf("%v: %s: it takes one value, not a list", v.At, e.Key), "Write it behind the name, in the same line.")
	case isBool && !v.Bool:
		return fmt.Errorf("%v: %s: %q is neither true nor false", v.At, e.Key, v.Text[0])
	case v.Bool && !isBool:
		return withHint(fmt.Errorf("%v: %s: it takes a value, not true or false", v.At, e.Key),
			fmt.Sprintf("Quote it if it is meant: %q.", v.Text[0]))
	}
	return nil
}

func flagNamed(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if f.Names()[0] == name {
			return f
		}
	}
	return nil
}

// notThere helps whoever wrote a setting that a command has not.
func notThere(command *cli.Command, key string) string {
	var names []string
	for _, f := range command.Flags {
		if name := f.Names()[0]; !slices.Contains(notSettings, name) {
			names = append(names, name)
		}
	}
	if hint := didYouMean(key, names, ""); hint != "" {
		return hint[:len(hint)-1]
	}
	var others []string
	for _, other := range configurable() {
		if flagNamed(other.Flags, key) != nil {
			others = append(others, other.Name)
		}
	}
	if len(others) > 0 {
		return fmt.Sprintf("It is one of %s: each command has a file of its own.", strings.Join(others, " and "))
	}
	return fmt.Sprintf("Run \"slotferry %s --help\": the settings are named as the flags.", command.Name)
}

// configurable are the commands that take --config.
func configurable() []*cli.Command {
	return []*cli.Command{relayCommand(), helperCommand(), soloCommand()}
}
