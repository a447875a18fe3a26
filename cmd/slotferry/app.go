package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/urfave/cli/v2"
)

// newApp lists the commands. urfave/cli's own ways to end the process, to print
// usage errors, and to guess are all switched off: checkArgs has looked at the
// arguments before, and report prints what went wrong.
func newApp(std streams) *cli.App {
	setHelp()
	app := &cli.App{
		Name:        "slotferry",
		Usage:       "logical replication slots that survive a failover to a physical standby",
		Description: appDescription,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version"}},
		HideVersion: true, // --version is an ordinary flag here
		Commands: []*cli.Command{
			relayCommand(), helperCommand(), soloCommand(), statusCommand(), checkCommand(), debugCommand(),
			versionCommand(), completionCommand(),
		},
		HideHelpCommand: true,
		Reader:          std.in,
		Writer:          std.out,
		ErrWriter:       std.err,
		ExitErrHandler:  func(*cli.Context, error) {},
		Action:          noCommand,
	}
	prepare(app.Commands)
	return app
}

// setHelp sets what urfave/cli has as globals only.
var setHelp = sync.OnceFunc(func() {
	cli.HelpPrinter = printHelp
	cli.HelpFlag = &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this text", DisableDefaultText: true}
})

const appDescription = `A relay in front of the primary sends the state of its logical slots along
with physical replication; a helper beside the standby keeps the same slots
there. After promotion every subscriber finds its slot and goes on.

  slotferry relay  --listen :6432 \
      --upstream 'host=primary user=slotferry dbname=postgres'
  slotferry helper --listen 127.0.0.1:6433 --upstream 'host=relay port=6432' \
      --standby 'host=/run/postgresql user=slotferry dbname=postgres' \
      --state-dir DIRECTORY

and primary_conninfo = 'host=127.0.0.1 port=6433 ...' on the standby. Begin
with "slotferry check": it names every setting that is missing on both servers.

Every flag can be set in the environment: SLOTFERRY_ and the flag's name in
capitals, - written as _. A flag wins over it, and it wins over the file in
--config of relay, helper and solo. What a CONNINFO leaves out comes from
libpq's own places: service file, password file, PG* variables.

Exit status: 0 done or ready, 1 failed or not ready, 2 no server reached,
3 bad usage.`

// prepare gives every command, at any depth, the same treatment.
func prepare(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelpCommand = true
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usageError(err) }
		if len(c.Subcommands) > 0 {
			c.Action = noCommand
			prepare(c.Subcommands)
		}
	}
}

// noCommand runs when a command was left out.
func noCommand(c *cli.Context) error {
	if c.Bool("version") {
		return printVersion(c)
	}
	name := "slotferry"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != name {
		name += " " + c.Command.Name
	}
	return usageError(withHint(errors.New("no command given"), fmt.Sprintf("Run %q for the list of them.", name+" --help")))
}

// given are the flags that stand on the command line, as opposed to the
// environment: an error names the one that is wrong.
type given map[string]bool

// invocation is what the program was started with.
type invocation struct {
	args  []string
	given given
}

type invocationKey struct{}

func withInvocation(ctx context.Context, l invocation) context.Context {
	return context.WithValue(ctx, invocationKey{}, l)
}

func invocationFrom(ctx context.Context) invocation {
	l, _ := ctx.Value(invocationKey{}).(invocation)
	return l
}
