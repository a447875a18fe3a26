package decoder

import "github.com/slotferry/slotferry/protocol"

// Protection is what has been seen of the physical slot that holds the standby's
// catalog_xmin on the upstream, in one life of the upstream (I-3).
//
// That the slot holds it now says nothing of before. A physical slot's catalog_xmin is
// marked dirty by feedback and is on disk with the next checkpoint
// (PhysicalReplicationSlotNewXmin, walsender.c), so an upstream that crashes can
// come back without it; a server that was promoted, or a new physical slot, never
// had it. What is vacuumed until feedback has brought it may be on its way yet, and
// invalidates slots when it is replayed. Once all of it is, a slot that is valid
// has lost nothing.
type Protection struct {
	PostmasterStart int64  `json:"postmaster_start"` // of the upstream
	TimelineID      uint32 `json:"timeline_id"`      // of the upstream
	SlotName        string `json:"slot_name"`        // the physical slot

	// Held is the sequence of the first message that showed a catalog_xmin; 0: none did.
	Held uint64 `json:"-"`

	// Since is the capture of a message after that: a message's position is read before
	// its slots, so that of the first one may be from before the feedback.
	Since protocol.LSN `json:"-"`

	// Whole means that the standby has replayed up to there.
	Whole bool `json:"-"`
}

// life is the same physical slot in the same life of the upstream, of which nothing
// has been seen.
func (p Protection) life() Protection {
	return Protection{PostmasterStart: p.PostmasterStart, TimelineID: p.TimelineID, SlotName: p.SlotName}
}

// protectionNow is the physical slot and the life of the upstream that the view is of.
func protectionNow(v *View) Protection {
	m := v.Upstream.Message
	return Protection{PostmasterStart: m.PostmasterStartTime, TimelineID: m.TimelineID, SlotName: v.Standby.PrimarySlotName}
}

// carryProtection carries on what this view shows.
func carryProtection(v *View) Protection {
	p := v.Protection
	if overall(v).bad() {
		return p
	}
	m := v.Upstream.Message
	now := protectionNow(v)
	slot, ok := physicalSlot(v)
	if p.life() != now || !ok || slot.CatalogXmin == 0 {
		p = now
	}
	switch {
	case !ok || slot.CatalogXmin == 0 || p.Whole:
		return p
	case p.Held == 0:
		p.Held = m.Sequence
	case p.Since == protocol.InvalidLSN && m.Sequence != p.Held:
		p.Since = m.CaptureLSN
	}
	p.Whole = p.Since != protocol.InvalidLSN && v.Standby.Replay >= p.Since
	return p
}

// replayed says that what the upstream removed before it held the standby's
// catalog_xmin may not have been replayed yet; the zero verdict when it has.
func (p Protection) replayed(replay protocol.LSN) verdict {
	switch {
	case p.Whole:
		return verdict{}
	case p.Since == protocol.InvalidLSN:
		return pending(ReasonWALNotReplayed, "the next slot message says how far it has to be")
	}
	return pending(ReasonWALNotReplayed, "%v replayed, %v needed: vacuum may not have been held back before", replay, p.Since)
}
