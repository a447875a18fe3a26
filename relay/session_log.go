package relay

import (
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// logBegin writes the line a physical stream gets when it begins.
func (s *session) logBegin() {
	st := s.status()
	s.log.Info().Str("application_name", st.ApplicationName).Str("upstream", st.Upstream).
		Stringer("start", st.StartLSN).Uint32("timeline", st.TimelineID).Bool("slot_messages", st.OptedIn).
		Msg("streaming WAL")
}

// logEnd writes the one line a session gets when it is over.
func (s *session) logEnd(err error) {
	st := s.status()
	level := zerolog.WarnLevel
	var gone *downstreamGoneError
	switch {
	case err == nil, errors.Is(err, errBinding): // that one was logged when it began
		level = zerolog.DebugLevel
	case errors.As(err, &gone), isReset(err):
		level = zerolog.InfoLevel
	}
	var leftOut uint64
	if level > zerolog.DebugLevel && (st.State == stateStartup || st.State == stateLogin) {
		var may bool
		if may, leftOut = s.relay.strangers.pass(time.Now()); !may {
			level = zerolog.DebugLevel
		}
	}
	e := s.log.WithLevel(level)
	if err != nil && !errors.Is(err, errBinding) {
		e = e.Err(err)
		var h interface{ Hint() string }
		if errors.As(err, &h) && h.Hint() != "" {
			e = e.Str("hint", h.Hint())
		}
	}
	if leftOut > 0 {
		e = e.Uint64("left_out", leftOut)
	}
	e.Str("kind", string(st.Kind)).Str("application_name", st.ApplicationName).Str("upstream", st.Upstream).
		Stringer("position", st.Position).Uint64("spliced", st.Spliced).Uint64("stripped", st.Stripped).
		Msg("session ended")
}

// How many lines a minute there are about connections that ended before their
// login was over. Whoever reaches the port can cause them, a port scanner too; the
// first ones say what an operator has to know.
const (
	strangerLines  = 10
	strangerWindow = time.Minute
)

// lineBudget lets some lines through in each window of time, and counts the
// others.
type lineBudget struct {
	mu      sync.Mutex
	began   time.Time // of the window
	lines   int       // let through in it
	leftOut uint64    // since one was let through
}

// pass reports whether a line may be written, and how many were not since the
// last one.
func (b *lineBudget) pass(now time.Time) (may bool, leftOut uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.began) >= strangerWindow {
		b.began, b.lines = now, 0
	}
	if b.lines == strangerLines {
		b.leftOut++
		return false, 0
	}
	b.lines++
	leftOut, b.leftOut = b.leftOut, 0
	return true, leftOut
}
