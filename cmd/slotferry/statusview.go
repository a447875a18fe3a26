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

func (v *statusView) document(url string, d *statusdoc.Document) {
	word := table.Paint("ready", table.Good, v.color)
	if !d.Ready {
		word = table.Paint("NOT READY", table.Bad, v.color)
	}
	v.line("%s on %s: %s", table.Printable(d.Command), table.Printable(d.Host), word)
	v.line("%s, running for %s, version %s", table.Printable(url), human.Duration(d.Time.Sub(d.Started)), table.Printable(d.Version))
	if d.Helper != nil {
		v.helper(d)
	}
	if s := d.Source(); s != nil {
		v.source(s, d.Time)
	}
	if d.Relay != nil {
		v.relay(d)
		if d.Relay.HoldBack != nil {
			v.holdBack(d.Relay, d.Time)
		}
	}
	for _, n := range d.NotReady {
		if n.Part != "slot" { // those are in the table
			v.line("not ready: %s: %s%s", n.Part, n.Reason, detail(n.Detail))
		}
	}
	v.hints(d)
}

func detail(text string) string {
	if text == "" {
		return ""
	}
	return ", " + table.Printable(text)
}

func (v *statusView) helper(d *statusdoc.Document) {
	h := d.Helper
	age := "none yet"
	if seconds := d.MessageAge(); seconds >= 0 {
		age = human.Duration(time.Duration(seconds*float64(time.Second))) + " old"
	}
	v.line("system identifier %d, timeline %d, role %s, replayed %v, slot message %s",
		h.Standby.SystemIdentifier, h.Standby.TimelineID, h.Role, h.Standby.ReplayLSN, age)
	if h.Anchor.Phase != "" {
		v.line("anchor %s%s%s", h.Anchor.Phase, position(" at ", h.Anchor.Position), detail(string(h.Anchor.Reason)))
	}
	if len(h.Slots) > 0 {
		v.line("")
		v.slots(h.Slots, d.Time)
	}
	v.line("")
	v.line("%v", d.CountSlots())
	if h.Promotion != nil {
		v.out.WriteString(h.Promotion.Text(v.color))
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

func (v *statusView) slots(slots []decoder.SlotStatusJSON, now time.Time) {
	t := table.Table{
		Header: []string{"SLOT", "DATABASE", "PLUGIN", "UPSTREAM", "STANDBY", "LAG", "STATE", "REASON", "SINCE"},
		Right:  []bool{false, false, false, false, false, true, false, false, true},
	}
	for i := range slots {
		s := &slots[i]
		lag := human.Bytes(s.Lag)
		if s.Local == protocol.InvalidLSN {
			lag = "-"
		}
		row := table.Text(s.Name, s.Database, s.Plugin, lsn(s.Upstream), lsn(s.Local), lag, string(s.State),
			string(s.Reason), human.Duration(now.Sub(s.Since)))
		row[6].Color = stateColor(s.State)
		t.Rows = append(t.Rows, row)
	}
	v.table(t)
	for i := range slots {
		if s := &slots[i]; s.Detail != "" && s.State != decoder.StateReady {
			v.line("%s: %s", table.Printable(s.Name), table.Printable(s.Detail))
		}
	}
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

func (v *statusView) source(s *relay.SlotSourceStatus, now time.Time) {
	if !s.Connected {
		v.line("slot source: not connected%s", detail(s.Error))
		return
	}
	role := "primary"
	if s.InRecovery {
		role = "standby"
	}
	v.line("slot source: %s %s, system identifier %d, timeline %d, %d slots, last message %s ago", role,
		table.Printable(s.Upstream), s.SystemIdentifier, s.TimelineID, s.Slots, human.Duration(now.Sub(s.LastMessage)))
	if s.SnapshotError != "" {
		v.line("slot source: no standby snapshots%s", detail(s.SnapshotError))
	}
}

func (v *statusView) relay(d *statusdoc.Document) {
	r := d.Relay
	v.line("%s relay on %s, upstream %s, %d connections accepted, %d failed", r.Mode,
		table.Printable(strings.Join(r.Listen, ", ")), table.Printable(strings.Join(r.Upstream, ", ")), r.Accepted, r.Failed)
	if len(r.Sessions) == 0 {
		return
	}
	t := table.Table{
		Header: []string{"SESSION", "KIND", "STATE", "APPLICATION", "DOWNSTREAM", "POSITION", "SLOT MESSAGES", "HELPER SAYS", "SINCE"},
		Right:  []bool{true, false, false, false, false, false, false, false, true},
	}
	for i := range r.Sessions {
		s := &r.Sessions[i]
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
	v.line("")
	v.table(t)
	v.line("")
}

// hints prints what clears each reason that is there, once.
func (v *statusView) hints(d *statusdoc.Document) {
	seen := map[string]bool{}
	for _, n := range d.NotReady {
		if n.Reason == "" || n.Hint == "" || seen[n.Reason] {
			continue
		}
		seen[n.Reason] = true
		v.line("hint: %s: %s", n.Reason, table.Printable(n.Hint))
	}
	if s := d.Source(); s != nil && s.SnapshotHint != "" {
		v.line("hint: %s", table.Printable(s.SnapshotHint))
	}
}
