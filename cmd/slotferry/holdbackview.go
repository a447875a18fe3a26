package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/table"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// holdBack says behind which standbys logical streams are held back, where each
// stream stands, and which slots are consumed otherwise.
func (v *statusView) holdBack(r *relay.Status, now time.Time) {
	h := r.HoldBack
	v.line("")
	v.line("hold-back behind %s: %s", table.Printable(h.Standbys), holdPosition(h))
	for i := range h.Connected {
		s := &h.Connected[i]
		state := "streaming"
		if !s.Streaming {
			state = "catching up"
		}
		v.line("standby %s, flushed %s, %s", table.Printable(cmp.Or(s.Name(), "without a name that the role may see")), lsn(s.Flush), state)
	}
	t := table.Table{
		Header: []string{"SESSION", "SLOT", "HOLD-BACK", "POSITION", "WAITS FOR", "HELD BY", "REASON", "HELD FOR"},
		Right:  []bool{true, false, false, false, false, false, false, true},
	}
	var hints []string // each once: streams mostly wait for the same
	for i := range r.Sessions {
		s := &r.Sessions[i]
		if !s.HasHold() {
			continue
		}
		held := ""
		if s.HoldBack.Since != nil {
			held = human.Duration(now.Sub(*s.HoldBack.Since))
		}
		row := table.Text(fmt.Sprint(s.ID), s.HoldBack.Slot, s.HoldBack.Text(), lsn(s.Position), lsn(s.HoldBack.WaitsFor),
			strings.Join(s.HoldBack.By, ", "), string(s.HoldBack.Reason), held)
		row[2].Color = holdColor(s.HoldBack.State)
		t.Rows = append(t.Rows, row)
		if h := s.HoldBack; h.Hint != "" && !slices.Contains(hints, string(h.Reason)+": "+h.Hint) {
			hints = append(hints, string(h.Reason)+": "+h.Hint)
		}
	}
	if len(t.Rows) > 0 {
		v.table(t)
	}
	for _, hint := range hints {
		v.line("%s", table.Printable(hint))
	}
	for i := range h.Slots {
		if text := notHeldBack(&h.Slots[i]); text != "" {
			v.line("%s", table.Printable(text))
		}
	}
}

func holdPosition(h *relay.HoldBackStatus) string {
	switch {
	case !h.Known:
		return "the upstream's walsenders have not been read yet"
	case h.Position == protocol.InvalidLSN:
		return "too few of them stream, nothing passes"
	default:
		return "flushed " + h.Position.String()
	}
}

func holdColor(state string) table.Color {
	switch state {
	case "passing":
		return table.Good
	case "held":
		return table.Wait
	}
	return table.Bad
}

// notHeldBack says how a slot is consumed that hold-back has no hand in; "" for one
// that has.
func notHeldBack(s *relay.HoldSlot) string {
	how := s.NotHeldBack()
	if how == "" {
		return ""
	}
	if s.Ahead > 0 {
		how += ", its consumer is ahead of the standbys by " + human.Bytes(s.Ahead)
	}
	return fmt.Sprintf("not held back: slot %s %s", s.Name, how)
}
