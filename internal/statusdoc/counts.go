package statusdoc

import (
	"fmt"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/protocol"
)

// Counts says how many slots are in which state.
type Counts struct {
	Ready   int `json:"ready"`
	Pending int `json:"pending"`
	Blocked int `json:"blocked"`
}

// Add counts a slot in. A state that is not known here is no good one.
func (c *Counts) Add(s decoder.State) {
	switch s {
	case decoder.StateReady:
		c.Ready++
	case decoder.StatePending:
		c.Pending++
	default:
		c.Blocked++
	}
}

// Plus adds the slots of another helper.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Ready + o.Ready, c.Pending + o.Pending, c.Blocked + o.Blocked}
}

// Total is how many slots there are.
func (c Counts) Total() int { return c.Ready + c.Pending + c.Blocked }

// String writes the counts for people: "1 of 3 slots ready, 2 pending".
func (c Counts) String() string {
	total := c.Total()
	if total == 0 {
		return "no slots"
	}
	text := fmt.Sprintf("%d of %d slots ready", c.Ready, total)
	if c.Pending > 0 {
		text += fmt.Sprintf(", %d pending", c.Pending)
	}
	if c.Blocked > 0 {
		text += fmt.Sprintf(", %d blocked", c.Blocked)
	}
	return text
}

// CountSlots counts the slots of the document's helper.
func (d *Document) CountSlots() Counts {
	var c Counts
	if d.Helper != nil {
		for i := range d.Helper.Slots {
			c.Add(d.Helper.Slots[i].State)
		}
	}
	return c
}

// CountReport counts the slots that a helper reported.
func CountReport(r *protocol.HelperReport) Counts {
	var c Counts
	for _, s := range r.Slots {
		c.Add(decoder.State(s.State))
	}
	return c
}
