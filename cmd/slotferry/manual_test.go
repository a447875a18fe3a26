package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// Manual pages are made from what --help says, in man(7): the program itself has
// no use for them.

// manualPages returns all pages by file name, one for each command.
func manualPages() map[string]string {
	app := newApp(streams{})
	pages := map[string]string{}
	m := manual{name: "slotferry", usage: app.Usage, description: app.Description, commands: app.Commands, flags: app.Flags}
	pages[m.file()] = m.page()
	addPages(pages, m.name, app.Commands)
	return pages
}

func addPages(pages map[string]string, above string, commands []*cli.Command) {
	for _, c := range commands {
		m := manual{above + " " + c.Name, c.Usage, c.Description, c.ArgsUsage, c.Subcommands, c.Flags}
		pages[m.file()] = m.page()
		addPages(pages, m.name, c.Subcommands)
	}
}

// manual is one page.
type manual struct {
	name, usage, description, args string
	commands                       []*cli.Command
	flags                          []cli.Flag
}

func (m *manual) title() string { return strings.ReplaceAll(m.name, " ", "-") }
func (m *manual) file() string  { return "man/" + m.title() + ".1" }

func (m *manual) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" Made from the program's own help by \"make generate\".\n.TH %s 1 \"\" slotferry \"slotferry manual\"\n",
		strings.ToUpper(roff(m.title())))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n", roff(m.title()), roff(m.usage), roff(m.name))
	if len(m.commands) > 0 {
		b.WriteString(".I COMMAND\n")
	}
	if len(m.flags) > 0 {
		b.WriteString("[\\fIFLAGS\\fR]\n")
	}
	if m.args != "" {
		fmt.Fprintln(&b, roff(m.args))
	}
	b.WriteString(".SH DESCRIPTION\n" + roffText(m.description))
	if len(m.commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range m.commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(m.title()+"-"+c.Name), roff(c.Usage))
		}
	}
	m.options(&b)
	if flagNamed(m.flags, "config") != nil {
		fmt.Fprintf(&b, `.SH SIGNALS
.TP
SIGTERM, SIGINT
Stop accepting, end the sessions, exit. A second one ends the process at once.
.TP
SIGHUP
Read the file in \fB\-\-config\fR and the certificate again.
.SH FILES
.TP
.I /etc/slotferry/%[1]s.yaml
what the systemd unit slotferry\-%[1]s.service has as \fB\-\-config\fR
.TP
.I /usr/share/doc/slotferry/examples/%[1]s.yaml
an example of it
`, strings.TrimPrefix(m.name, "slotferry "))
	}
	b.WriteString(".SH EXIT STATUS\n0 done or ready, 1 failed or not ready, 2 no server reached, 3 bad usage.\n.SH SEE ALSO\n")
	b.WriteString(".BR " + strings.Join(m.seeAlso(), " (1),\n.BR ") + " (1)\n")
	return b.String()
}

func (m *manual) options(b *strings.Builder) {
	if len(m.flags) == 0 {
		return
	}
	b.WriteString(".SH OPTIONS\n")
	if m.name != "slotferry" {
		b.WriteString("Each can be set in the environment: SLOTFERRY_ and its name in capitals, \\- written as _.\n")
	}
	for _, f := range m.flags {
		value, usage := flagUsage(f)
		fmt.Fprintf(b, ".TP\n\\fB\\-\\-%s\\fR", roff(f.Names()[0]))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		fmt.Fprintf(b, "\n%s\n", roff(usage))
	}
}

// seeAlso names the page above, those beside it, and the first step.
func (m *manual) seeAlso() []string {
	if m.name == "slotferry" {
		return []string{"slotferry\\-check"}
	}
	list := []string{"slotferry"}
	for _, c := range []string{"check", "status", "relay", "helper", "solo"} {
		if name := "slotferry " + c; name != m.name {
			list = append(list, roff(strings.ReplaceAll(name, " ", "-")))
		}
	}
	return list
}

// roff escapes text of one line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// roffText writes paragraphs; indented lines are examples.
func roffText(text string) string {
	var b strings.Builder
	example := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !example:
			b.WriteString(".PP\n.EX\n")
		case example && !indented:
			b.WriteString(".EE\n")
		}
		example = indented
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if example {
		b.WriteString(".EE\n")
	}
	// A paragraph that an example begins needs no second break.
	return strings.ReplaceAll(b.String(), ".PP\n.PP\n", ".PP\n")
}

// TestManualPages has man itself look at the pages. A page nobody can read is not
// one; that all are there is checked with their contents.
func TestManualPages(t *testing.T) {
	t.Parallel()
	tool := needTool(t, "groff", "man")
	pages := manualPages()
	if len(pages) < 10 {
		t.Fatalf("there are only %d pages", len(pages))
	}
	for name, page := range pages {
		cmd := exec.Command(tool, "-man", "-ww", "-z", "-Kutf8", "-rLL=80n")
		cmd.Stdin = strings.NewReader(page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	relay := pages["man/slotferry-relay.1"]
	wants(t, relay, ".SH OPTIONS", `\fB\-\-interval\fR \fIDURATION\fR`, "Default: 1s", ".SH SIGNALS", "/etc/slotferry/relay.yaml")
	if names := slices.Collect(strings.Lines(relay)); !slices.Contains(names, ".SH EXIT STATUS\n") {
		t.Error("no exit status")
	}
}
