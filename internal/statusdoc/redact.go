package statusdoc

import (
	"slices"

	"github.com/slotferry/slotferry/relay"
)

// Redact passes every text that comes from an error through mask. The parts are
// copied first: they belong to the relay and the helper.
func (d *Document) Redact(mask func(string) string) {
	if d.SlotSource != nil {
		d.SlotSource = redactSource(d.SlotSource, mask)
	}
	if d.Relay != nil && d.Relay.SlotSource != nil {
		r := *d.Relay
		r.SlotSource = redactSource(r.SlotSource, mask)
		d.Relay = &r
	}
	if d.Helper == nil {
		return
	}
	h := *d.Helper
	h.Detail, h.Anchor.Detail = mask(h.Detail), mask(h.Anchor.Detail)
	h.Slots = slices.Clone(h.Slots)
	for i := range h.Slots {
		h.Slots[i].Detail = mask(h.Slots[i].Detail)
	}
	if h.Promotion != nil {
		p := *h.Promotion
		p.Slots = slices.Clone(p.Slots)
		for i := range p.Slots {
			p.Slots[i].Error = mask(p.Slots[i].Error)
		}
		h.Promotion = &p
	}
	d.Helper = &h
}

func redactSource(source *relay.SlotSourceStatus, mask func(string) string) *relay.SlotSourceStatus {
	s := *source
	s.Error, s.SnapshotError = mask(s.Error), mask(s.SnapshotError)
	return &s
}
