package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/relay"
)

// reloadable are the settings that change while a process runs. A connection
// string does not: what runs with it has proven itself with that one.
var reloadable = []string{
	"slot", "exclude-slot", "database", "include-table-sync", "log-level", "hold-back", "hold-back-exempt", "hold-back-timeout",
}

// reload reads the configuration file, certificates and the token again, and takes all of
// it that can change in a running process. With an error anywhere it takes nothing.
func (p *process) reload() {
	p.notify(reloading())
	defer p.notify("READY=1")
	next := p.settings
	if p.read != nil {
		next = p.settings.again()
		p.read(next)
		_ = next.common()
	}
	err := next.err()
	access := func() {}
	if err == nil && p.access != nil {
		access, err = p.access.Read()
	}
	if err == nil && p.tls != nil {
		err = p.tls.Reload()
	}
	if err != nil {
		for _, problem := range problems(withoutStatus(err)) {
			p.log.Error().Str("error", oneLine(problem.Error())).Str("hint", hintOf(problem)).
				Msg("SIGHUP: nothing is changed, what was in force stays")
		}
		return
	}
	changed, restart := p.settings.differences(next)
	p.take(next, changed)
	access()
	p.log.Info().Bool("certificate", p.tls != nil).Bool("http_access", p.access != nil).Strs("changed", changed).Strs("needs_restart", restart).
		Msg("SIGHUP: configuration read again")
	for _, name := range restart {
		p.log.Warn().Str("setting", next.source(name)).Str("hint", "Restart slotferry to put it in force.").
			Msg("SIGHUP: a new value needs a restart")
	}
}

// take puts the reloadable settings in force.
func (p *process) take(next *settings, changed []string) {
	if p.source != nil {
		if err := p.source.SetFilters(next.slotFilters()); err != nil { // globs has looked at them
			p.log.Error().Err(err).Msg("SIGHUP: the filters stay")
		}
	}
	if p.relay != nil && p.settings.c.String("hold-back") != "" && next.c.String("hold-back") != "" {
		if err := p.relay.SetHoldBack(*next.holdBack(new(relay.SlotSourceConfig))); err != nil { // it was read before
			p.log.Error().Err(err).Msg("SIGHUP: hold-back stays")
		}
	}
	p.level.set(next.logLevel())
	for _, name := range changed {
		p.settings.values[name] = next.values[name]
	}
}

// again reads the same command line, the same environment, and the file as it is
// now.
func (s *settings) again() *settings {
	var next *settings
	app := newApp(streams{s.c.App.Reader, s.c.App.Writer, s.c.App.ErrWriter})
	app.Command(s.c.Command.Name).Action = func(c *cli.Context) error {
		next = newSettings(c)
		return nil
	}
	if err := app.RunContext(s.c.Context, s.ran.args); err != nil || next == nil {
		next = &settings{c: s.c, ran: s.ran, values: s.values} // it was good at the start
		next.problems = append(next.problems, err)
	}
	next.look = true
	return next
}

// switches reports whether a setting turns something on or off that cannot be while
// the process runs: a session is held back from its begin, or never.
func (s *settings) switches(next *settings, name string) bool {
	return strings.HasPrefix(name, "hold-back") && (s.c.String("hold-back") == "") != (next.c.String("hold-back") == "")
}

// differences names the settings that are not the same: those that can be put in
// force now, and those that need a restart.
func (s *settings) differences(next *settings) (changed, restart []string) {
	for _, f := range s.c.Command.Flags {
		name := f.Names()[0]
		switch {
		case s.values[name].same(next.values[name]):
		case slices.Contains(reloadable, name) && !s.switches(next, name):
			changed = append(changed, name)
		default:
			restart = append(restart, name)
		}
	}
	return changed, restart
}
