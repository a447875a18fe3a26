package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/version"
	"github.com/slotferry/slotferry/protocol"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "Prints the versions of slotferry, of the slot messages it writes, and of Go.",
		Action:      printVersion,
	}
}

func printVersion(c *cli.Context) error {
	_, err := fmt.Fprintf(c.App.Writer, "slotferry %s (slot message version %d, %s %s/%s)\n",
		version.String(), protocol.SlotMessageVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
