package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/version"
)

// printConfig prints what is in force as a file for --config, with the source of
// each value as a comment behind it: a table for people, YAML for slotferry.
func printConfig(s *settings) error {
	var lines []configLine
	for _, f := range s.c.Command.Flags {
		name := f.Names()[0]
		if slices.Contains(notSettings, name) {
			continue
		}
		lines = append(lines, s.values[name].lines(name)...)
		if slices.Contains(conninfoSettings, name) {
			lines = append(lines, leftOutLines(s.values[name].text[0])...)
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# slotferry %s %s: what is in force, and where it comes from\n", s.c.Command.Name, version.String())
	width := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l.text); n <= sourceColumn {
			width = max(width, n)
		}
	}
	for _, l := range lines {
		if l.source == "" {
			fmt.Fprintln(&out, l.text)
			continue
		}
		fmt.Fprintf(&out, "%s  # %s\n", pad(l.text, width), l.source)
	}
	_, err := s.c.App.Writer.Write([]byte(out.String()))
	return err
}

// sourceColumn is where the sources stand at most: longer lines push theirs away.
const sourceColumn = 50

// conninfoSettings are those that libpq's own places add something to.
var conninfoSettings = []string{"upstream", "slots", "standby"}

// leftOutLines say, in comments, what comes to a conninfo from elsewhere.
func leftOutLines(text string) []configLine {
	if text == "" {
		return nil
	}
	var lines []configLine
	for _, p := range conninfo.LeftOut(text, os.Getenv) {
		lines = append(lines, configLine{strings.TrimRight(fmt.Sprintf("#   %s %s", p.Keyword, p.Value), " "), p.From})
	}
	return lines
}

// configLine is one line of YAML, and what to say of it.
type configLine struct{ text, source string }

// lines are the YAML of one setting.
func (v *value) lines(name string) []configLine {
	source := v.origin(name)
	if len(v.text) == 0 || !v.list && v.text[0] == "" {
		if v.from == fromDefault {
			return []configLine{{"# " + name + ":", "not set"}}
		}
		return []configLine{{"# " + name + ":", "not set, " + source}}
	}
	var values []string
	for _, text := range v.text {
		shown := conninfo.WithoutSecrets(text)
		if strings.HasSuffix(name, "url") {
			shown = withoutUser(shown)
		}
		if shown != text {
			source += ", password left out"
		}
		values = append(values, yamlScalar(shown, v.bool))
	}
	if !v.list {
		return []configLine{{name + ": " + values[0], source}}
	}
	lines := []configLine{{name + ":", source}}
	for _, text := range values {
		lines = append(lines, configLine{"  - " + text, ""})
	}
	return lines
}

// origin is source in the words of somebody who asks where a value comes from.
func (v *value) origin(name string) string {
	text := "default"
	switch v.from {
	case fromFile:
		text = v.at.String()
	case fromFlag, fromEnvironment:
		text = v.source(name)
	}
	if v.unheard.Line > 0 {
		text += fmt.Sprintf("; wins over %v", v.unheard)
	}
	return text
}

// yamlScalar writes one value so that reading it gives the same text.
func yamlScalar(text string, isBool bool) string {
	node := yaml.Node{Kind: yaml.ScalarNode, Value: text, Tag: "!!str"}
	if _, err := strconv.Atoi(text); err == nil || isBool {
		return text // needs no quotes: a number is taken as it is written
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		node.Style = yaml.DoubleQuotedStyle // in one line
	}
	out, err := yaml.Dump(&node, yaml.WithLineWidth(-1))
	if err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSpace(string(out))
}
