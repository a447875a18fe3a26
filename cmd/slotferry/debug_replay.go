package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/replay"
	"github.com/slotferry/slotferry/relay"
)

func debugReplayCommand() *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "serve a capture as the upstream would that was recorded",
		ArgsUsage: "FILE",
		Description: `Accepts connections and plays one that "slotferry debug capture" has recorded:
whoever connects is let in, and gets the answers that were recorded, with all
that was wrong in them; a file that is itself damaged is refused. It waits for a
command where one was recorded, not for feedback.

  slotferry debug replay --listen 127.0.0.1:6432 session.capture

SIGTERM ends it.`,
		Flags: []cli.Flag{
			texts("listen", "accept connections on `ADDRESS`, HOST:PORT or the directory of a Unix socket, /DIR:PORT"),
			text("conn", "", "play the connection of that `NUMBER`. Default: the first"),
			yes("keep-time", "as slowly as it was recorded. Without it, as fast as possible"),
			text("log-level", "info", "log from `LEVEL` on: debug, info, warn or error"),
		},
		Action: runDebugReplay,
	}
}

func runDebugReplay(c *cli.Context) error {
	s := newSettings(c)
	listen, level := s.listen("listen", true), s.logLevel()
	if len(listen) > 1 {
		s.problem("listen", "", errors.New("one address is enough"))
	}
	connection := 0
	if c.String("conn") != "" {
		connection = s.number("conn", 1, math.MaxInt32)
	}
	name := c.Args().First()
	if name == "" {
		s.problems = append(s.problems, withHint(errors.New("which file?"), `Name a file of "slotferry debug capture".`))
	}
	if err := s.err(); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	recording, err := replay.Read(file, info.Size(), uint32(connection))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	l, err := relay.Listen(listen[0])
	if err != nil {
		return err
	}
	log := newLogger(c.App.ErrWriter, newLogLevel(level), conninfo.NewRedactor()).With().Str("command", "replay").Logger()
	log.Info().Str("listen", l.Addr().String()).Msg("replay is listening")
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return replay.Serve(ctx, l, replay.Config{Recording: recording, KeepTime: c.Bool("keep-time"), Logger: log})
}
