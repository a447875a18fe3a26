package main

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/relay"
)

// holdBackFlags say behind which standbys logical streams are held back.
func holdBackFlags() []cli.Flag {
	return []cli.Flag{
		text("hold-back", "", "hold logical streams back until the standbys in `LIST` have flushed what they send, in the syntax and with the meaning of synchronous_standby_names: 'ANY 1 (s1, s2)', 'FIRST 1 (s1, s2)'; 's1, s2' is FIRST 1. A name is an application_name or a physical slot. Needs --tls-cert or --refuse-tls. Default: off"),
		texts("hold-back-exempt", "but not the streams of slots that match `GLOB`; repeatable"),
		text("hold-back-timeout", "0", "let a stream go that has waited for `DURATION`, with a warning, until the standbys have caught up; its subscriber can then be ahead of the next primary. 0 is never"),
	}
}

// holdBack reads the flags of holdBackFlags, and has source read what they need;
// nil when nothing is to be held back. The source itself is filled in later.
func (s *settings) holdBack(source *relay.SlotSourceConfig) *relay.HoldBack {
	list := s.c.String("hold-back")
	h := &relay.HoldBack{Exempt: s.globs("hold-back-exempt"), Timeout: s.duration("hold-back-timeout", 0, 24*time.Hour)}
	if list == "" {
		alone := errors.New("it has no meaning without --hold-back")
		if len(h.Exempt) > 0 {
			s.problem("hold-back-exempt", "", alone)
		}
		if h.Timeout != 0 {
			s.problem("hold-back-timeout", "", alone)
		}
		return nil
	}
	names, err := relay.ParseStandbyNames(list)
	if err != nil {
		s.problem("hold-back", "Write it like synchronous_standby_names: 'ANY 1 (s1, s2)' or 's1, s2'.", err)
	}
	h.Standbys = names
	if s.c.String("tls-cert") == "" && !s.c.Bool("refuse-tls") {
		s.problem("hold-back", "End TLS at the relay with --tls-cert and --tls-key, or give --refuse-tls.",
			errors.New("a stream that passes in TLS cannot be read, and so not held back"))
	}
	source.Walsenders = true
	return h
}
