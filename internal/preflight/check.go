package preflight

import (
	"fmt"
	"strconv"
)

// Check goes through what is known of the two servers, nil when one was not
// asked for.
func Check(upstream, standby *Server) []Finding {
	return append(checkUpstream(upstream, standby), checkStandby(standby, upstream)...)
}

// checkConnection says whether there was a session.
func (l *list) checkConnection(s *Server) bool {
	l.must(s.ConnectError == "", Finding{
		Setting: "connection", Value: orElse(s.ConnectError, s.Address), Want: "a session", Change: s.ConnectHint,
	})
	return s.ConnectError == ""
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// checkWALLevel is the same on both sides.
func (l *list) checkWALLevel(s *Server) {
	l.must(s.Settings["wal_level"] == "logical", Finding{
		Setting: "wal_level", Value: s.Settings["wal_level"], Want: "logical",
		Change: "ALTER SYSTEM SET wal_level = 'logical'", Restart: true,
	})
}

// checkRoom says how many of a server's limited things are free.
func (l *list) checkRoom(otherwise Level, s *Server, setting string, used, need int, change string) {
	limit, err := strconv.Atoi(s.Settings[setting])
	if err != nil {
		l.note(Skip, Finding{Setting: setting, Value: "not known", Want: fmt.Sprintf("%d free", need)})
		return
	}
	l.add(limit-used >= need, otherwise, Finding{
		Setting: setting, Value: fmt.Sprintf("%d, %d in use", limit, used), Want: fmt.Sprintf("%d free", need),
		Change: change, Restart: true,
	})
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
