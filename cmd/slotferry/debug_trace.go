package main

import (
	"bufio"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/livetrace"
	"github.com/slotferry/slotferry/protocol/trace"
)

func debugTraceCommand() *cli.Command {
	return &cli.Command{
		Name:      "trace",
		Usage:     "messages of a live stream, one line each",
		ArgsUsage: "CONNINFO",
		Description: `Connects to a server or a relay, streams, and prints each message as "slotferry
debug inspect" does, but for the login. It confirms nothing, so no slot moves,
and makes nothing on the server unless --temporary-slot says so. The offset is
that in the stream of its direction. SIGINT ends it.

  slotferry debug trace 'host=primary user=repl'
  slotferry debug trace --logical --temporary-slot \
      --option proto_version=1 --option publication_names=p \
      'host=primary user=repl dbname=shop'
  slotferry debug trace --slot-state 'host=relay port=6432 user=repl'

Without a slot, or with a physical one, WAL streams from --startpos, by default
from the server's end of WAL. Exit status 2: no server reached.`,
		Flags: join(outputFlags(), []cli.Flag{
			yes("logical", "stream changes, decoded by the slot's plugin; dbname is needed"),
			yes("slot-state", "stream slot messages: a relay's sidecar channel"),
			text("slot", "", "stream from the slot `NAME`; nothing is confirmed to it"),
			yes("temporary-slot", "make a slot for the stream, which the server drops with the session"),
			text("plugin", "pgoutput", "`NAME` of the plugin of a temporary logical slot"),
			texts("option", "option of the plugin, `NAME=VALUE`; repeatable"),
			text("startpos", "", "stream from `LSN`"),
			text("endpos", "", "end when WAL up to `LSN` has come"),
		}),
		Action: runDebugTrace,
	}
}

func runDebugTrace(c *cli.Context) error {
	s := newSettings(c)
	filter := s.filter()
	cfg := livetrace.Config{
		Conninfo: c.Args().First(), Slot: c.String("slot"), Temporary: c.Bool("temporary-slot"),
		Plugin: c.String("plugin"), Options: c.StringSlice("option"), Start: s.lsn("startpos"), End: s.lsn("endpos"),
		Trace: trace.Config{ShowSecrets: c.Bool("show-secrets"), NoRecords: c.Bool("no-records"), At: -1},
	}
	problem := func(hint, text string) { s.problems = append(s.problems, withHint(errors.New(text), hint)) }
	switch {
	case cfg.Conninfo == "":
		problem("Name the server: 'host=... port=... user=...' or a postgres:// URI.", "which server?")
	case conninfo.Check(cfg.Conninfo) != nil:
		s.problems = append(s.problems, conninfo.Check(cfg.Conninfo))
	}
	switch logical, state := c.Bool("logical"), c.Bool("slot-state"); {
	case logical && state:
		problem("", "--logical and --slot-state exclude each other")
	case state && (cfg.Slot != "" || cfg.Temporary):
		problem("", "--slot-state uses no slot")
	case cfg.Slot != "" && cfg.Temporary:
		problem("", "--slot and --temporary-slot exclude each other")
	case logical && cfg.Slot == "" && !cfg.Temporary:
		problem("Name one with --slot, or add --temporary-slot.", "--logical needs a slot")
	case logical:
		cfg.Mode = livetrace.Logical
	case state:
		cfg.Mode = livetrace.SlotState
	}
	for _, o := range cfg.Options {
		if name, _, found := strings.Cut(o, "="); !found || name == "" {
			s.problem("option", "", fmt.Errorf("%q is not NAME=VALUE", o))
		}
	}
	if err := s.err(); err != nil {
		return err
	}
	out := bufio.NewWriter(c.App.Writer)
	var line []byte
	cfg.Emit = func(m *trace.Message) error {
		if !filter.Match(m) {
			return nil
		}
		if c.Bool("json") {
			line = m.AppendJSON(line[:0])
		} else {
			line = m.AppendText(line[:0])
		}
		_, _ = out.Write(append(line, '\n')) // Flush has its error
		return out.Flush()
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := livetrace.Run(ctx, cfg)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // the reader has seen enough
	case errors.Is(err, livetrace.ErrUnreachable):
		return &statusError{exitUnreachable, err}
	}
	return err
}
