package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// helpWidth is the width of every help text in columns.
const helpWidth = 80

// helpWord takes "slotferry help COMMAND", as many programs have it, for
// "slotferry COMMAND --help".
func helpWord(args []string) []string {
	if len(args) < 2 || args[1] != "help" {
		return args
	}
	return append(append([]string{args[0]}, args[2:]...), "--help")
}

// printHelp replaces urfave/cli's templates, whose lines are as long as their
// longest flag wants.
func printHelp(w io.Writer, _ string, data any) {
	switch d := data.(type) {
	case *cli.App:
		helpText(w, d.Name, d.Usage, d.Description, "", d.Commands, nil)
	case *cli.Command:
		helpText(w, d.HelpName, d.Usage, d.Description, d.ArgsUsage, d.Subcommands, d.Flags)
	}
}

func helpText(w io.Writer, name, usage, description, args string, commands []*cli.Command, flags []cli.Flag) {
	fmt.Fprintf(w, "%s\n\n", strings.Join(wrap(name+" - "+usage, helpWidth), "\n"))
	line := name
	if len(commands) > 0 {
		line += " COMMAND"
	}
	if len(flags) > 0 {
		line += " [FLAGS]"
	}
	if args != "" {
		line += " " + args
	}
	fmt.Fprintf(w, "Usage: %s\n", line)
	if description != "" {
		fmt.Fprintf(w, "\n%s\n", description)
	}
	if len(commands) > 0 {
		fmt.Fprint(w, "\nCommands:\n")
		for _, c := range commands {
			indented(w, "  "+pad(c.Name, 12), c.Usage, 14)
		}
		fmt.Fprintf(w, "\nRun \"%s COMMAND --help\" for the flags of one.\n", name)
	}
	if len(flags) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
		for _, f := range flags {
			flagText(w, f)
		}
	}
}

func flagText(w io.Writer, f cli.Flag) {
	value, usage := flagUsage(f)
	head := "  --" + f.Names()[0]
	for _, alias := range f.Names()[1:] {
		head += ", -" + alias
	}
	if value != "" {
		head += " " + value
	}
	fmt.Fprintln(w, head)
	indented(w, "        ", usage, 8)
}

// flagUsage returns the name of a flag's value, "" when it takes none, and the
// sentences that say what it is for.
func flagUsage(f cli.Flag) (value, usage string) {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return "", ""
	}
	value, usage = placeholder(doc.GetUsage())
	if doc.TakesValue() && value == "" {
		value = "VALUE"
	}
	if s, isText := f.(*cli.StringFlag); isText && s.Value != "" {
		usage += ". Default: " + s.Value
	}
	return value, usage + "."
}

// placeholder takes the name of a flag's value out of its back quotes.
func placeholder(usage string) (value, rest string) {
	before, after, found := strings.Cut(usage, "`")
	value, tail, closed := strings.Cut(after, "`")
	if !found || !closed {
		return "", usage
	}
	return value, before + value + tail
}

// indented prints text behind head, further lines by indent.
func indented(w io.Writer, head, text string, indent int) {
	for _, line := range wrap(text, helpWidth-indent) {
		fmt.Fprintln(w, head+line)
		head = strings.Repeat(" ", indent)
	}
}

// wrap breaks a text at spaces into lines of at most width columns.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}
