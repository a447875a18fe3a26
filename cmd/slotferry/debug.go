package main

import (
	"io"
	"os"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/protocol"
)

func debugCommand() *cli.Command {
	return &cli.Command{
		Name:  "debug",
		Usage: "look at what goes over the wire",
		Description: `For the person whose replication connection misbehaves, with or without
slotferry in it, and for who develops another implementation of slot messages.
How to use it: docs/debug.md. Wire format: protocol/doc.go; vectors: testdata/.`,
		Subcommands: []*cli.Command{debugCaptureCommand(), debugInspectCommand(), debugTraceCommand(), debugReplayCommand(), debugEncodeCommand(), debugDecodeCommand()},
	}
}

const formatUsage = "`FORMAT` of the bodies: hex (lines of 32 bytes, a blank line between two bodies), base64 (a line a body) or raw (one body, as it is)"

func debugEncodeCommand() *cli.Command {
	return &cli.Command{
		Name:      "encode",
		Usage:     "slot message from JSON to bodies on the wire",
		ArgsUsage: "[FILE]",
		Description: `Reads JSON from FILE, or from standard input without one or with -, and prints
the body of each part: the Data of a 0/0 XLogData. It is the exact inverse of
"slotferry debug decode", given the same --part-size.`,
		Flags: []cli.Flag{
			text("format", formatHex, formatUsage),
			text("part-size", strconv.Itoa(protocol.MaxPartBody), "make bodies of at most `BYTES`"),
			yes("report", "the JSON is a helper report, the message that goes the other way"),
		},
		Action: runDebugEncode,
	}
}

func debugDecodeCommand() *cli.Command {
	return &cli.Command{
		Name:      "decode",
		Usage:     "slot message from bodies on the wire to JSON",
		ArgsUsage: "[FILE]",
		Description: `Reads bodies of slot messages, or a helper report, from FILE, or from standard
input without one or with -, and prints each whole message as JSON. A damaged
one is named with the byte where it goes wrong. Exit status 1 then.`,
		Flags:  []cli.Flag{text("format", formatHex, formatUsage)},
		Action: runDebugDecode,
	}
}

func runDebugEncode(c *cli.Context) error {
	s := newSettings(c)
	format, size := s.bodyFormat(), s.number("part-size", 64, protocol.MaxPartBody)
	if err := s.err(); err != nil {
		return err
	}
	input, err := readInput(c)
	if err != nil {
		return err
	}
	bodies, err := encodeMessage(input, size, c.Bool("report"))
	if err != nil {
		return err
	}
	return writeBodies(c.App.Writer, format, bodies)
}

func runDebugDecode(c *cli.Context) error {
	s := newSettings(c)
	format := s.bodyFormat()
	if err := s.err(); err != nil {
		return err
	}
	input, err := readInput(c)
	if err != nil {
		return err
	}
	bodies, err := readBodies(format, input)
	if err != nil {
		return err
	}
	return decodeMessages(c.App.Writer, bodies)
}

// readInput reads the file that is the argument, or standard input.
func readInput(c *cli.Context) ([]byte, error) {
	if name := c.Args().First(); name != "" && name != "-" {
		return os.ReadFile(name)
	}
	return io.ReadAll(c.App.Reader)
}
