package main

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/conninfo"
)

// logLevel is the level from which on is logged. It can change while loggers that
// were derived from one with it are in use.
type logLevel struct{ least atomic.Int32 }

func newLogLevel(l zerolog.Level) *logLevel {
	level := new(logLevel)
	level.set(l)
	return level
}

func (l *logLevel) set(level zerolog.Level) { l.least.Store(int32(level)) }

// Sample implements zerolog.Sampler: what is not logged costs nothing.
func (l *logLevel) Sample(level zerolog.Level) bool { return int32(level) >= l.least.Load() }

// newLogger logs JSON, one object a line, or lines for people if w is a
// terminal. What the redactor knows is masked.
func newLogger(w io.Writer, level *logLevel, redactor *conninfo.Redactor) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "2006-01-02 15:04:05.000", TimeLocation: time.Local}
	}
	return zerolog.New(redactor.Writer(w)).Sample(level).With().Timestamp().Logger()
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// colors reports whether w shows colour: a terminal, unless NO_COLOR or TERM=dumb
// says otherwise.
func colors(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
