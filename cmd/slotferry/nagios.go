package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/preflight"
)

// The exit statuses of a plugin, by the Monitoring Plugins' guidelines. They are
// not slotferry's own.
const (
	nagiosOK       = 0
	nagiosWarning  = 1
	nagiosCritical = 2
	nagiosUnknown  = 3
)

var nagiosWords = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// maxNagiosText bounds what is said of what is wrong: a plugin has one line.
const maxNagiosText = 300

// nagiosLine is the whole output of a plugin: a verdict, what is wrong, and
// figures. Nobody reached is CRITICAL, not UNKNOWN: that is for the plugin's own
// trouble.
func nagiosLine(doc *checkDocument) (line string, status int) {
	counts := map[preflight.Level]int{}
	var wrong []string
	for _, level := range []preflight.Level{preflight.Fail, preflight.Warn} {
		for _, f := range doc.Findings {
			if f.Level == level {
				counts[level]++
				wrong = append(wrong, fmt.Sprintf("%s %s is %s", f.Side, f.Setting, f.Value))
			}
		}
	}
	switch {
	case counts[preflight.Fail] > 0:
		status = nagiosCritical
	case counts[preflight.Warn] > 0:
		status = nagiosWarning
	}
	text := doc.Slots.String()
	if doc.Helpers == 0 {
		text = "no helper asked"
		if slices.ContainsFunc(doc.Findings, func(f preflight.Finding) bool { return f.Side == preflight.Helper }) {
			text = "no helper answered"
		}
	}
	if len(wrong) > 0 {
		text += "; " + strings.Join(wrong, "; ")
	}
	return nagiosOutput(status, text, doc.figures(counts)), status
}

// nagiosOutput keeps to one line, and to the one bar that sets figures apart.
func nagiosOutput(status int, text, figures string) string {
	text = strings.ReplaceAll(strings.Join(strings.Fields(oneLine(text)), " "), "|", "/")
	if len(text) > maxNagiosText {
		text = strings.ToValidUTF8(text[:maxNagiosText], "") + "..."
	}
	if figures != "" {
		text += " | " + figures
	}
	return "SLOTFERRY " + nagiosWords[status] + " - " + text
}

// figures are performance data: 'label'=value[unit];warn;crit;min.
func (doc *checkDocument) figures(counts map[preflight.Level]int) string {
	list := []string{
		fmt.Sprintf("failed=%d;;;0", counts[preflight.Fail]), fmt.Sprintf("warnings=%d;;;0", counts[preflight.Warn]),
	}
	if doc.Helpers > 0 {
		list = append(list,
			fmt.Sprintf("slots_ready=%d;;;0", doc.Slots.Ready), fmt.Sprintf("slots_pending=%d;;;0", doc.Slots.Pending),
			fmt.Sprintf("slots_blocked=%d;;;0", doc.Slots.Blocked),
			fmt.Sprintf("lag=%dB;;;0", doc.lag), fmt.Sprintf("lag_time=%.1fs;;;0", doc.lagTime))
	}
	return strings.Join(list, " ")
}

// printNagios prints the plugin's line and returns its status.
func printNagios(w io.Writer, doc *checkDocument) error {
	line, status := nagiosLine(doc)
	if _, err := fmt.Fprintln(w, line); err != nil {
		return err
	}
	if status == nagiosOK {
		return nil
	}
	return &statusError{status, nil}
}

// asNagios says what kept the plugin from its work, where a plugin's user looks.
func asNagios(c *cli.Context, err error) error {
	var texts []string
	for _, problem := range problems(withoutStatus(err)) {
		texts = append(texts, problem.Error())
	}
	fmt.Fprintln(c.App.Writer, nagiosOutput(nagiosUnknown, strings.Join(texts, "; "), ""))
	return &statusError{nagiosUnknown, nil}
}
