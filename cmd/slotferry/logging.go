package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/conninfo"
)

// newLogger logs JSON, one object a line, or lines for people if w is a
// terminal. What the redactor knows is masked.
func newLogger(w io.Writer, level zerolog.Level, redactor *conninfo.Redactor) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "2006-01-02 15:04:05.000", TimeLocation: time.Local}
	}
	return zerolog.New(redactor.Writer(w)).Level(level).With().Timestamp().Logger()
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
