package decoder

import (
	"fmt"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/table"
	"github.com/slotferry/slotferry/protocol"
)

// Text writes the report for people: when and where the server was promoted, a
// line for each slot, and below the table what is to be done now.
func (r *PromotionReport) Text(color bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "promoted to timeline %d at %v, %s\n", r.TimelineID, r.SwitchLSN, r.Time.UTC().Format(time.DateTime+" UTC"))
	if len(r.Slots) == 0 {
		out.WriteString("no slots\n")
		return out.String()
	}
	t := table.Table{
		Header: []string{"SLOT", "DATABASE", "USABLE", "STANDBY", "SUBSCRIBER", "SENT TWICE", "NOTE"},
		Right:  []bool{false, false, false, false, false, true},
		Color:  color,
	}
	usable := 0
	for i := range r.Slots {
		p := &r.Slots[i]
		word, paint := "yes", table.Good
		if p.Usable {
			usable++
		} else {
			word, paint = "NO", table.Bad
		}
		row := table.Text(p.Name, p.Database, word, position(p.Local), position(p.Last), p.sentTwice(), p.note())
		row[2].Color = paint
		t.Rows = append(t.Rows, row)
	}
	_ = t.Write(&out) // a strings.Builder takes everything
	fmt.Fprintf(&out, "%d of %d slots usable\n", usable, len(r.Slots))
	for i := range r.Slots {
		out.WriteString(r.Slots[i].advice())
	}
	return out.String()
}

// position writes an LSN for a table; "-" when there is none.
func position(l protocol.LSN) string {
	if l == protocol.InvalidLSN {
		return "-"
	}
	return l.String()
}

func (p *PromotionSlot) sentTwice() string {
	if !p.Usable {
		return "-"
	}
	return human.Bytes(p.DuplicateBytes)
}

func (p *PromotionSlot) note() string {
	note := string(p.Reason)
	if p.Ahead != nil {
		note = fmt.Sprintf("subscriber is ahead, from %v to %v", p.Ahead.From, p.Ahead.To)
	}
	return strings.TrimSpace(note + " " + p.Error)
}

// advice says what is to be done about a slot, in lines of a terminal's width;
// empty when nothing is.
func (p *PromotionSlot) advice() string {
	name := table.Printable(p.Name)
	switch {
	case p.Ahead != nil:
		return fmt.Sprintf(`%s: its subscriber has commits that this server never had. What this
  server commits below %v is never sent to it. Before the first write:
  SELECT pg_switch_wal(); until pg_current_wal_lsn() is past that.
`, name, p.Ahead.To)
	case p.Usable:
		return ""
	case p.Reason == ReasonNameClash:
		return fmt.Sprintf(`%s: the slot of this name is not slotferry's, and was left alone.
  What it has missed is not known. Set the subscription up anew.
`, name)
	case p.Action == PromotionKeep:
		return fmt.Sprintf(`%s: it was here before the helper. Whether it can be decoded without a
  gap is not known: compare the subscriber's rows, or set it up anew.
`, name)
	case p.Action == PromotionDrop && p.Error != "":
		return fmt.Sprintf(`%s: it would lose changes and has to go, but could not be dropped.
  That is tried again. Set the subscription up anew.
`, name)
	}
	return fmt.Sprintf(`%s: the slot is not here, and its subscriber is told so. Set the
  subscription up anew.
`, name)
}
