package decoder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// The report of the last promotion in the state directory: for programs, and for
// people who have nothing but a shell.
const (
	promotionFile = "promotion.json"
	promotionText = "promotion.txt"
)

// PromotionReport is what became of the slots at a promotion. It is kept in the
// state directory as promotion.json, a documented contract, and as promotion.txt.
type PromotionReport struct {
	Time       time.Time       `json:"time"`
	TimelineID uint32          `json:"timeline_id"`
	SwitchLSN  protocol.LSN    `json:"switch_lsn"`
	Slots      []PromotionSlot `json:"slots"`
}

// PromotionSlot is the outcome for one slot.
type PromotionSlot struct {
	Name     string `json:"slot_name"`
	Database string `json:"database"`
	Plugin   string `json:"plugin"`

	Usable bool             `json:"usable"` // the subscriber can go on from here
	Action PromotionAction  `json:"action"` // what is done to it
	Reason Reason           `json:"reason"` // why it is not usable
	Local  protocol.LSN     `json:"confirmed_flush_lsn"`
	Last   protocol.LSN     `json:"last_upstream_confirmed_flush_lsn"`
	Target protocol.LSN     `json:"target_lsn"`
	Ahead  *SubscriberAhead `json:"subscriber_ahead"` // null: it is not
	Error  string           `json:"error,omitempty"`

	// Failover is set where the upstream's slot had failover and it is put back on
	// this one. A copy never has it.
	Failover bool `json:"failover,omitempty"`

	// DuplicateBytes is the WAL from the slot's position to the last known
	// position of the subscriber: what it may be sent a second time.
	DuplicateBytes uint64 `json:"duplicate_bytes"`
}

// SubscriberAhead is a range of WAL that the subscriber has confirmed and the
// new primary has never had. Rows in it exist on the subscriber alone, and the
// new primary's first commits below To are not sent to it.
type SubscriberAhead struct {
	From protocol.LSN `json:"from"`
	To   protocol.LSN `json:"to"`
}

// PromotionAction names what is done to a slot at a promotion.
type PromotionAction string

// The actions at a promotion.
const (
	PromotionKeep    PromotionAction = "keep"
	PromotionAdvance PromotionAction = "advance"
	PromotionDrop    PromotionAction = "drop"
	PromotionMissing PromotionAction = "missing"
)

// addPending adds the slots that were not the helper's when the promotion came. One
// that had not been made does not exist here, and its subscriber is told so by the
// server. One that somebody else made is left alone; what it has missed is not known.
func (r *PromotionReport) addPending(pending []SlotStatusJSON, standby *Standby) {
	for i := range pending {
		s := &pending[i]
		if slices.ContainsFunc(r.Slots, func(p PromotionSlot) bool { return p.Name == s.Name }) {
			continue
		}
		p := PromotionSlot{
			Name: s.Name, Database: s.Database, Plugin: s.Plugin, Action: PromotionMissing, Reason: s.Reason, Last: s.Upstream,
		}
		if l, exists := standby.Slot(s.Name); exists {
			p.Action, p.Local = PromotionKeep, l.ConfirmedFlushLSN
		}
		r.Slots = append(r.Slots, p)
	}
	slices.SortFunc(r.Slots, func(a, b PromotionSlot) int { return strings.Compare(a.Name, b.Name) })
}

// merge takes over what an earlier report of the same promotion says: what could
// not be dropped at first is tried again, perhaps by a helper that was started
// meanwhile, and each try reports only what it has done itself.
func (r *PromotionReport) merge(old *PromotionReport) {
	if old == nil || old.TimelineID != r.TimelineID {
		return
	}
	for _, p := range old.Slots {
		i := slices.IndexFunc(r.Slots, func(n PromotionSlot) bool { return n.Name == p.Name })
		switch {
		case i < 0:
			r.Slots = append(r.Slots, p)
		default:
			r.Slots[i].takeOver(&p)
		}
	}
	slices.SortFunc(r.Slots, func(a, b PromotionSlot) int { return strings.Compare(a.Name, b.Name) })
}

// takeOver keeps what an earlier try knew better: why a slot had to go, and not
// that this was still to be done; and how far its subscriber was by the last
// message, of which a helper that was started again knows only the ledger's part.
func (p *PromotionSlot) takeOver(old *PromotionSlot) {
	if old.Reason != ReasonNone {
		p.Reason = old.Reason
	}
	p.Last = max(p.Last, old.Last)
	if old.Ahead != nil && (p.Ahead == nil || p.Ahead.To < old.Ahead.To) {
		p.Ahead = old.Ahead
	}
	if p.Target < old.Target {
		p.Target = old.Target
		p.DuplicateBytes = uint64(p.Target - min(p.Target, p.Local))
	}
}

// write keeps the report in the state directory.
func (r *PromotionReport) write(dir string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode promotion report: %w", err)
	}
	return errors.Join(
		replaceFile(osFiles{}, filepath.Join(dir, promotionFile), append(raw, '\n')),
		replaceFile(osFiles{}, filepath.Join(dir, promotionText), []byte(r.Text(false))))
}

// readPromotion returns the report that is kept in the state directory, nil when
// there is none.
func readPromotion(dir string) (*PromotionReport, error) {
	raw, err := os.ReadFile(filepath.Join(dir, promotionFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read promotion report: %w", err)
	}
	r := new(PromotionReport)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("parse promotion report: %w", err)
	}
	return r, nil
}
