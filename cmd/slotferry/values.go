package main

import (
	"os"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/configfile"
)

// value is what is in force for one flag, and where it came from.
type value struct {
	text    []string // one, but for a repeatable flag
	list    bool     // of a repeatable flag
	bool    bool     // of a flag without a value: text is true or false
	from    origin
	at      configfile.Place // fromFile: the value there
	unheard configfile.Place // where the file has it too, and is not heard; Line 0: nowhere
}

func (v *value) same(other *value) bool { return slices.Equal(v.text, other.text) }

// origin is where a value came from. What comes first wins.
type origin int

const (
	fromFlag origin = iota
	fromEnvironment
	fromFile
	fromDefault
)

// source names where a value came from, in the words of who set it.
func (v *value) source(name string) string {
	switch v.from {
	case fromEnvironment:
		return envName(name)
	case fromFile:
		return v.at.String() + ": " + name
	}
	return "--" + name
}

// notSettings are flags that say what to do now, not how to run: they have no
// place in a file.
var notSettings = []string{"help", "config", "print-config", "dry-run", "drop-all"}

// values looks up every flag of a command. entries are those of the file; each
// one that counts is put into c, where it is read like any other.
func values(c *cli.Context, g given, entries map[string]configfile.Entry) map[string]*value {
	all := map[string]*value{}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		v := &value{from: fromDefault}
		entry, inFile := entries[name]
		_, inEnvironment := os.LookupEnv(envName(name))
		switch {
		case g[name]:
			v.from = fromFlag
		case inEnvironment:
			v.from = fromEnvironment
		case inFile:
			v.from, v.at = fromFile, entry.Value.At
			put(c, f, entry.Value.Text)
		}
		if inFile && v.from < fromFile {
			v.unheard = entry.At
		}
		switch f.(type) {
		case *cli.StringSliceFlag:
			v.text, v.list = c.StringSlice(name), true
		case *cli.BoolFlag:
			v.text, v.bool = []string{strconv.FormatBool(c.Bool(name))}, true
		default:
			v.text = []string{c.String(name)}
		}
		all[name] = v
	}
	return all
}

// put sets a flag as if it had been given. It cannot fail: what a flag accepts
// was checked when the file was read.
func put(c *cli.Context, f cli.Flag, text []string) {
	name := f.Names()[0]
	if repeatable(f) { // in one piece: a value may have a comma
		_ = c.Set(name, cli.NewStringSlice(text...).Serialize())
		return
	}
	_ = c.Set(name, text[0])
}
