// Command slotferry keeps logical replication alive when a PostgreSQL primary
// fails over to a physical standby. See slotferry --help.
package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
)

// streams are where a command reads and writes. Results go to out, everything
// else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	args := slices.Clone(os.Args)
	for i := range args {
		args[i] = strings.Clone(args[i])
	}
	hideSecrets(os.Args)
	os.Exit(run(context.Background(), args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

// run is the whole program but for the process around it. It returns the exit
// status.
func run(ctx context.Context, args []string, std streams) int {
	app := newApp(std)
	args = helpWord(args)
	given, err := checkArgs(app, args)
	if err == nil {
		err = app.RunContext(withInvocation(ctx, invocation{args, given}), args)
	}
	return report(std.err, err)
}
