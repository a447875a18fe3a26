package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/slotferry/slotferry/internal/poll"
)

// Log returns all that the server has logged, over all its starts.
func (s *Server) Log() string { return s.logFrom(0) }

// LogTail returns the last lines of the log.
func (s *Server) LogTail(lines int) string { return tail(s.Log(), lines) }

// LogSize returns the size of the log in bytes, as a mark for LogSince and
// WaitLogSince.
func (s *Server) LogSize() int64 {
	info, err := os.Stat(s.logPath)
	if err != nil {
		return 0
	}
	return info.Size()
}

// LogSince returns what the server has logged since a mark.
func (s *Server) LogSince(mark int64) string { return s.logFrom(mark) }

// WaitLogContains waits until the log contains text anywhere.
func (s *Server) WaitLogContains(ctx context.Context, text string) error {
	return s.WaitLogSince(ctx, 0, text)
}

// WaitLogSince waits until the server has logged text after a mark.
func (s *Server) WaitLogSince(ctx context.Context, mark int64, text string) error {
	return poll.Until(ctx, waitTimeout, fmt.Sprintf("server %q to log %q", s.name, text),
		func(context.Context) (bool, string) {
			log := s.logFrom(mark)
			return strings.Contains(log, text), "the log ends in:\n" + tail(log, 10)
		})
}

// logFrom reads the log from a byte on. A log that cannot be read is empty: it is
// for people, beside an error that says more.
func (s *Server) logFrom(offset int64) string {
	text, err := os.ReadFile(s.logPath)
	if err != nil || offset > int64(len(text)) {
		return ""
	}
	return string(text[offset:])
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
