package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/slotferry/slotferry/decoder"
)

// planTimeout is how long a dry run waits for slot state.
const planTimeout = 30 * time.Second

// onceFlags are those of a command that is run to the end instead of kept running.
func onceFlags() []cli.Flag {
	return []cli.Flag{
		yes("dry-run", "print what would be done now, and do nothing. It takes slot state from --upstream as without --listen, answers on no address, and can run beside the process with the same settings"),
	}
}

// runDropAll takes slotferry out of service on one standby.
func runDropAll(c *cli.Context) error {
	s := newSettings(c)
	cfg := s.helper()
	if err := s.err(); err != nil {
		return err
	}
	var err error
	if cfg.Host, err = s.host(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	dropped, err := decoder.DropAll(ctx, cfg)
	for _, name := range dropped {
		fmt.Fprintf(c.App.Writer, "dropped %s\n", name)
	}
	var connect *pgconn.ConnectError
	var server *pgconn.PgError
	switch {
	case errors.Is(err, decoder.ErrStateDirInUse):
		return withHint(err, "Stop the helper first: it would make the slots again.")
	case errors.Is(err, decoder.ErrOtherNode):
		return withHint(err, "Nothing was dropped. Give the --node-name (default: the host name) and the --standby that the helper had. If they are right, "+
			"the slots are to be dropped by hand: SELECT pg_drop_replication_slot('name').")
	case errors.Is(err, decoder.ErrNoLedger):
		return withHint(err, "Nothing was dropped. Give the --state-dir that the helper had.")
	case errors.Is(err, decoder.ErrNotStandby):
		return withHint(err, "Drop what is not needed there by hand: SELECT pg_drop_replication_slot('name').")
	case errors.As(err, &server) && server.Code == "3D000":
		return withHint(err, "Name a database that exists in --standby: dbname=postgres.")
	case errors.As(err, &connect) && server == nil:
		return &statusError{exitUnreachable, withHint(err, decoder.ReasonStandbyUnreachable.Hint())}
	case err != nil:
		return withHint(err, "What was dropped is dropped; run this again for the rest.")
	case len(dropped) == 0:
		fmt.Fprintln(c.App.Writer, "the standby has no slot of slotferry's")
	}
	return nil
}

// planError says what an error of a dry run means. A slot message comes first: where
// none came because nobody answers, nobody was reached.
func planError(err error) error {
	hinted := withHint(err, "Nothing was done. Check --upstream, --standby and the relay.")
	if errors.Is(err, decoder.ErrNobodyReached) {
		return &statusError{exitUnreachable, hinted}
	}
	return hinted
}

// printPlan prints what the helper would do now. services bring it slot state.
func printPlan(c *cli.Context, helper *decoder.Helper, services ...func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	var group errgroup.Group
	for _, run := range services {
		group.Go(func() error { return run(ctx) })
	}
	plan, err := helper.Plan(ctx)
	cancel()
	err = errors.Join(err, group.Wait())
	if err != nil {
		return planError(err)
	}
	if plan.Overall != decoder.ReasonNone {
		fmt.Fprintf(c.App.Writer, "nothing can be done: %s %s\n  %s\n", plan.Overall, plan.Detail, plan.Overall.Hint())
	}
	for i := range plan.Slots {
		fmt.Fprintln(c.App.Writer, "slot", plan.Slots[i])
	}
	fmt.Fprintln(c.App.Writer, plan.Anchor)
	for _, step := range plan.Steps {
		fmt.Fprintln(c.App.Writer, "step", step)
	}
	return nil
}
