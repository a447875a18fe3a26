package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/inspect"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

func debugInspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "messages of a capture or a packet capture, one line each",
		ArgsUsage: "FILE",
		Description: `Reads a file of "slotferry debug capture", or a pcap or pcapng file of tcpdump
or Wireshark, or standard input (-), and prints each message in it: time (UTC),
connection, direction (F from the downstream, B from the upstream), offset in
the file, length, name, fields. Where the bytes are no messages it says so, with
the last good message and the bytes around, and goes on behind the gap.

  slotferry debug inspect --type XLogData,SlotMessage session.capture
  tcpdump -i any -w - port 5432 | slotferry debug inspect -

Exit status 1: the file, or what was said, has faults. The JSON is a contract:
docs/debug.md.`,
		Flags:  join(outputFlags(), inspectFlags()),
		Action: runDebugInspect,
	}
}

// outputFlags are those of what prints messages.
func outputFlags() []cli.Flag {
	return []cli.Flag{
		yes("json", "print JSON, an object a line"),
		texts("type", "show messages of that `NAME` only: XLogData, Query, Insert, ...; repeatable"),
		texts("direction", "show messages that go `upstream` (or F) or downstream (or B) only"),
		text("lsn-from", "", "show messages about WAL at or behind `LSN` only"),
		text("lsn-to", "", "show messages about WAL at or before `LSN` only"),
		yes("no-records", "do not list the WAL records of each XLogData"),
		yes("show-secrets", "print passwords and keys, where they are known"),
	}
}

func inspectFlags() []cli.Flag {
	return []cli.Flag{
		texts("conn", "show the connection of that `NUMBER` only; repeatable"),
		text("slot", "", "show what has to do with the slot `NAME` only: streams started with it, commands that name it, slot messages that have it"),
		yes("summary", "print what the messages come to, for each connection, and where every byte of the file went"),
		text("at", "", "show the one message that has the byte at `OFFSET` of the file"),
		text("port", "", "in a packet capture, look at connections to `PORT` only. Default: all that speak PostgreSQL's protocol"),
	}
}

// filter reads the flags of outputFlags.
func (s *settings) filter() trace.Filter {
	f := trace.Filter{Types: s.c.StringSlice("type")}
	for _, d := range s.c.StringSlice("direction") {
		switch d {
		case "upstream", "F":
			f.Directions = append(f.Directions, trace.Upstream)
		case "downstream", "B":
			f.Directions = append(f.Directions, trace.Downstream)
		default:
			s.problem("direction", "", fmt.Errorf("%q is not upstream (F) or downstream (B)", d))
		}
	}
	f.From, f.To = s.lsn("lsn-from"), s.lsn("lsn-to")
	return f
}

func (s *settings) lsn(name string) protocol.LSN {
	value := s.c.String(name)
	if value == "" {
		return protocol.InvalidLSN
	}
	lsn, err := protocol.ParseLSN(value)
	if err != nil {
		s.problem(name, "", err)
	}
	return lsn
}

func runDebugInspect(c *cli.Context) error {
	s := newSettings(c)
	o := inspect.Options{
		JSON: c.Bool("json"), Summary: c.Bool("summary"), ShowSecrets: c.Bool("show-secrets"),
		NoRecords: c.Bool("no-records"), Filter: s.filter(), At: -1,
	}
	o.Filter.Slot = c.String("slot")
	for _, text := range c.StringSlice("conn") {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			s.problem("conn", "", fmt.Errorf("%q is not a number", text))
		}
		o.Filter.Connections = append(o.Filter.Connections, n)
	}
	if c.String("at") != "" {
		o.At = int64(s.number("at", 0, 1<<62))
	}
	if c.String("port") != "" {
		o.Port = uint16(s.number("port", 1, 65535))
	}
	name := c.Args().First()
	if name == "" {
		s.problems = append(s.problems, withHint(errors.New("which file?"), "Name a capture, a pcap or a pcapng file, or - for standard input."))
	}
	if err := s.err(); err != nil {
		return err
	}
	in, size := c.App.Reader, int64(0)
	o.Live = name == "-"
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil {
			size = info.Size()
		}
		in = file
	}
	if isTerminal(c.App.ErrWriter) && !isTerminal(c.App.Writer) {
		o.Progress = (&progress{to: c.App.ErrWriter, size: size}).report
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // the second signal ends a wait for more input
	return inspected(inspect.Run(ctx, in, c.App.Writer, o))
}

// inspected gives the end of an inspection its exit status.
func inspected(err error) error {
	switch {
	case errors.Is(err, inspect.ErrFaults):
		return errNotReady // all was printed
	case errors.Is(err, syscall.EPIPE):
		return nil // the reader has seen enough
	case errors.Is(err, inspect.ErrNoSecrets):
		return usageError(withHint(err, `Only "slotferry debug capture --show-secrets" keeps them.`))
	}
	return err
}

// progress tells people how far a long inspection has come.
type progress struct {
	to   io.Writer
	size int64 // 0: not known
	last time.Time
}

func (p *progress) report(done int64) {
	now := time.Now()
	if now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = now
	if p.size > 0 {
		fmt.Fprintf(p.to, "\r%s of %s, %d %% ", human.Bytes(uint64(done)), human.Bytes(uint64(p.size)), 100*done/p.size)
		return
	}
	fmt.Fprintf(p.to, "\r%s ", human.Bytes(uint64(done)))
}
