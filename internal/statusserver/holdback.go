package statusserver

import (
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// holdPage is what the page says of hold-back.
type holdPage struct {
	Behind   string // the list of standbys
	Position string // up to where they have flushed, as a sentence
	Good     bool   // subscribers get something
	Standbys []holdStandby
	Rows     []holdRow // those that want a look first
	Hidden   int
}

// holdStandby is a standby that the upstream streams to.
type holdStandby struct {
	Name  string
	Flush protocol.LSN
	State string
}

// holdRow is a logical stream that passes here, or a slot whose subscriber does not
// come this way.
type holdRow struct {
	Key        string
	Slot, From string
	State      string
	Level      string // ready, pending or blocked: the colours that slots have
	Since      *time.Time
	Shown      protocol.LSN
	WaitsFor   protocol.LSN
	By         string
	Reason     relay.HoldReason
	Hint       string
	Ahead      uint64
}

// urgent is the order of levels on the page.
var urgent = []string{"blocked", "pending", "ready"}

// hold makes it of a relay that holds streams back; nil: it does not.
func hold(d *statusdoc.Document) *holdPage {
	if d.Relay == nil || d.Relay.HoldBack == nil {
		return nil
	}
	h := d.Relay.HoldBack
	p := &holdPage{Behind: h.Standbys, Good: h.Known && h.Position != protocol.InvalidLSN}
	switch {
	case !h.Known:
		p.Position = "Their positions have not been read yet: nothing passes."
	case !p.Good:
		p.Position = "Too few of them stream: nothing passes."
	default:
		p.Position = "What they have flushed passes, up to " + h.Position.String() + "."
	}
	for i := range h.Connected[:min(len(h.Connected), maxBelow)] {
		s := &h.Connected[i]
		n := holdStandby{Name: s.Name(), Flush: s.Flush, State: "streaming"}
		if n.Name == "" {
			n.Name = "without a name that the role may see"
		}
		if !s.Streaming {
			n.State = "catching up, does not count"
		}
		p.Standbys = append(p.Standbys, n)
	}
	for i := range d.Relay.Sessions {
		if s := &d.Relay.Sessions[i]; s.HasHold() {
			p.Rows = append(p.Rows, streamRow(s))
		}
	}
	for i := range h.Slots {
		s := &h.Slots[i]
		how := s.NotHeldBack()
		if how == "" || s.Exempt && s.Consumer == relay.ConsumerRelay { // that has a row as a stream
			continue
		}
		row := holdRow{Key: "slot " + s.Name, Slot: s.Name, State: "not held back", Level: "blocked", Shown: s.ConfirmedFlushLSN,
			Hint: "It " + how + ".", Ahead: s.Ahead}
		if s.Exempt {
			row.State, row.Level = "exempt", "ready" // as it was asked for
		}
		p.Rows = append(p.Rows, row)
	}
	slices.SortStableFunc(p.Rows, func(a, b holdRow) int { return slices.Index(urgent, a.Level) - slices.Index(urgent, b.Level) })
	p.Hidden = max(0, len(p.Rows)-maxRows)
	p.Rows = p.Rows[:len(p.Rows)-p.Hidden]
	return p
}

// streamRow is of a logical stream. The subscriber has seen the session's position.
func streamRow(s *relay.SessionStatus) holdRow {
	h := s.HoldBack
	row := holdRow{
		Key: "stream " + h.Slot + " " + s.Downstream, Slot: h.Slot, From: s.Downstream, State: h.Text(), Level: "ready",
		Since: h.Since, Shown: s.Position, WaitsFor: h.WaitsFor, By: strings.Join(h.By, ", "), Hint: h.Hint,
	}
	if row.Slot == "" {
		row.Slot = "not known"
	}
	if s.ApplicationName != "" {
		row.From = s.ApplicationName + ", " + s.Downstream
	}
	switch h.State {
	case "held":
		row.Level, row.Reason = "pending", h.Reason
	case "let_go":
		row.Level, row.Reason = "blocked", h.Reason
	}
	if row.Level == "pending" && row.Hint != "" {
		row.Level = "blocked" // it waits for what will not come by itself
	}
	return row
}
