package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/internal/table"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// statusView writes status documents for people.
type statusView struct {
	out   strings.Builder
	color bool
}

func (v *statusView) line(format string, args ...any) {
	fmt.Fprintf(&v.out, format+"\n", args...)
}

func (v *statusView) table(t table.Table) {
	t.Color = v.color
	_ = t.Write(&v.out) // a strings.Builder takes everything
}

func detail(text string) string {
	if text == "" {
		return ""
	}
	return ", " + table.Printable(text)
}

// notes are what the tables have no room for, a line each, in the name of the
// process that says it.
func (v *statusView) notes(d *statusdoc.Document) {
	who := table.Printable(d.Command) + " on " + table.Printable(d.Host) + ": "
	if h := d.Helper; h != nil && h.Anchor.Phase != "" {
		v.line("%sanchor %s%s%s%s", who, h.Anchor.Phase, position(" at ", h.Anchor.Position), detail(string(h.Anchor.Reason)),
			detail(h.Anchor.Detail))
	}
	if s := d.Source(); s != nil {
		v.source(who, s, d.Time)
	}
	if r := d.Relay; r != nil {
		v.line("%s%s relay on %s, upstream %s, %d connections accepted, %d failed", who, r.Mode,
			table.Printable(strings.Join(r.Listen, ", ")), table.Printable(strings.Join(r.Upstream, ", ")), r.Accepted, r.Failed)
	}
	for _, n := range d.NotReady {
		if n.Part != "slot" { // those are in the table
			v.line("%snot ready: %s: %s%s", who, n.Part, n.Reason, detail(n.Detail))
		}
	}
}

func position(head string, l protocol.LSN) string {
	if l == protocol.InvalidLSN {
		return ""
	}
	return head + l.String()
}

// lsn writes a position for a table; "-" when there is none.
func lsn(l protocol.LSN) string {
	if l == protocol.InvalidLSN {
		return "-"
	}
	return l.String()
}

func stateColor(s decoder.State) table.Color {
	switch s {
	case decoder.StateReady:
		return table.Good
	case decoder.StatePending:
		return table.Wait
	}
	return table.Bad
}

func (v *statusView) source(who string, s *relay.SlotSourceStatus, now time.Time) {
	if !s.Connected {
		v.line("%sslot source not connected%s", who, detail(s.Error))
		return
	}
	v.line("%sreads %d slots of %s, last message %s ago", who, s.Slots, table.Printable(s.Upstream), human.Duration(now.Sub(s.LastMessage)))
	if s.SnapshotError != "" {
		v.line("%sno standby snapshots%s", who, detail(s.SnapshotError))
	}
}

// sessions lists those of a relay.
func (v *statusView) sessions(d *statusdoc.Document) {
	t := table.Table{
		Header: []string{"SESSION", "KIND", "STATE", "APPLICATION", "DOWNSTREAM", "POSITION", "SLOT MESSAGES", "HELPER SAYS", "SINCE"},
		Right:  []bool{true, false, false, false, false, false, false, false, true},
	}
	for i := range d.Relay.Sessions {
		s := &d.Relay.Sessions[i]
		messages := "no"
		if s.OptedIn {
			messages = "yes"
		}
		says := ""
		if s.HelperReport != nil {
			says = statusdoc.CountReport(s.HelperReport).String()
		}
		t.Rows = append(t.Rows, table.Text(fmt.Sprint(s.ID), string(s.Kind), s.State, s.ApplicationName, s.Downstream,
			lsn(s.Position), messages, says, human.Duration(d.Time.Sub(s.Started))))
	}
	v.table(t)
}

// hints prints what clears each reason that is there, once.
func (v *statusView) hints(documents []*statusdoc.Document) {
	seen := map[string]bool{"": true}
	say := func(key, format string, args ...any) {
		if !seen[key] {
			seen[key] = true
			v.line(format, args...)
		}
	}
	for _, d := range documents {
		for _, n := range d.NotReady {
			if n.Hint != "" {
				say(n.Reason, "hint: %s: %s", n.Reason, table.Printable(n.Hint))
			}
		}
		if s := d.Source(); s != nil {
			say(s.SnapshotHint, "hint: %s", table.Printable(s.SnapshotHint))
		}
	}
}
