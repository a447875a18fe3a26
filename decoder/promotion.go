package decoder

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/protocol"
)

// promotionTimeout bounds the last advances. What is not done by then is left:
// the slot is usable where it is, its subscriber is sent more a second time.
const promotionTimeout = 30 * time.Second

// promotionRetry is how long a slot that could not be dropped waits for another
// try.
const promotionRetry = 5 * time.Second

// onPrimary ends the helper's work on a server that has been promoted (I-7), and
// on a primary keeps a record of its slots, so that they are known when the
// server becomes a standby.
func (h *Helper) onPrimary(ctx context.Context) {
	h.closeAnchor() // pending slots vanish with it
	if h.wasStandby() && time.Now().After(h.promoteNext) {
		h.promote(ctx)
	}
	if !h.notPromoted {
		h.recordPrimarySlots()
	}
}

// wasStandby reports whether there is a promotion to finish: rows that nobody has
// handed over yet, or slots that were pending when the server was last looked at as
// a standby and have not made it.
func (h *Helper) wasStandby() bool {
	for _, row := range h.ledger.Rows() {
		if !row.Released {
			return true
		}
	}
	return len(h.pending) > 0
}

// promote advances every slot for the last time and hands it to its subscriber.
func (h *Helper) promote(ctx context.Context) {
	running := ctx
	if h.promoteSince.IsZero() {
		h.promoteSince = time.Now()
	}
	for _, run := range h.busy {
		run.cancel()
	}
	h.queue = nil
	for len(h.busy) > 0 {
		h.settle(<-h.results)
	}
	h.recordOutcomes()
	ctx, cancel := context.WithTimeout(ctx, promotionTimeout)
	defer cancel()
	h.promoteNext = time.Now().Add(promotionRetry)
	timeline := h.standby.Timeline
	if h.notPromoted = !newTimeline(timeline, h.lastTLI, h.ledger.Rows(), h.tracks); h.notPromoted {
		h.say("promotion", "not", h.log.Warn().Uint32("timeline_id", timeline).Str("hint", "--standby has to name the standby itself, whatever role it has."),
			"server is a primary, but was not promoted from what is followed: its slots are left alone")
		return
	}
	history, err := readHistory(ctx, h.sessions, timeline)
	if err != nil {
		h.say("promotion", err.Error(), h.log.Warn().Err(err), "timeline history cannot be read, slots stay where they are")
		if time.Since(h.promoteSince) < promotionTimeout { // all walsenders may be taken for a moment
			h.promoteNext = time.Now().Add(lookInterval)
			return
		}
	}
	if err := h.observe(ctx); err != nil { // cancelled steps may have moved slots
		h.say("promotion", err.Error(), h.log.Warn().Err(err), "promoted server cannot be looked at")
		return // the rows are not released, so a later look tries again
	}
	h.sayLedger(h.ledger.Update(func(rows map[string]LedgerRow) { takeRenames(rows, h.tracks, &h.standby.Standby) }))
	h.say("promotion", fmt.Sprint(timeline), h.log.Info().Uint32("timeline_id", timeline), "server is promoted")
	report := PlanPromotion(&PromotionView{
		Standby: h.standby.Standby, Timeline: timeline, History: history, Owned: h.ledger.Rows(), Tracks: h.tracks,
		RestoreFailover: h.cfg.RestoreFailover,
	})
	report.Time = time.Now().UTC()
	report.addPending(h.pending, &h.standby.Standby)
	h.finishSlots(ctx, &report)
	if running.Err() != nil {
		return // the helper is being stopped: the next one finds the rows, and finishes
	}
	h.logPromotion(&report)
	report.merge(h.promotion)
	h.release(&report)
	h.sessions.close() // an idle one would keep a database from being dropped
	h.promotion, h.pending = &report, nil
	h.promoteSince, h.promoteNext = time.Time{}, time.Now().Add(promotionRetry)
}

// newTimeline reports whether a server on that timeline can be the standby that
// has been followed, promoted: a promotion begins a timeline that is newer than all
// before. An address that has come to lead to the upstream itself does not.
func newTimeline(timeline, received uint32, rows map[string]LedgerRow, tracks map[string]Track) bool {
	if timeline <= received {
		return false
	}
	for name, row := range rows {
		if !row.Released && max(row.TimelineID, tracks[name].TimelineID) >= timeline {
			return false
		}
	}
	return true
}

// finishSlots takes the planned actions, each slot in a session of its database,
// as many at once as there may be sessions.
func (h *Helper) finishSlots(ctx context.Context, report *PromotionReport) {
	room := make(chan struct{}, h.cfg.MaxSessions)
	var wg sync.WaitGroup
	order := make([]*PromotionSlot, len(report.Slots))
	for i := range report.Slots {
		order[i] = &report.Slots[i]
	}
	slices.SortStableFunc(order, func(a, b *PromotionSlot) int { // so that a session serves many
		return strings.Compare(a.Database, b.Database)
	})
	progress := h.showPromotion(len(order))
	defer progress.stop()
	for _, p := range order {
		if p.Action != PromotionAdvance && p.Action != PromotionDrop && !p.Failover {
			progress.done.Add(1)
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			h.finishSlot(ctx, p)
			progress.done.Add(1)
			<-room
		})
	}
	wg.Wait()
}

func (h *Helper) finishSlot(ctx context.Context, p *PromotionSlot) {
	err := h.panics.Do(placeOf(p.Name), h.log, func() error { return h.takeAction(ctx, p) })
	if err != nil {
		p.Error, p.Failover = err.Error(), false
		if sqlState(err) == codeObjectInUse {
			p.Error = "in use by its subscriber"
		}
	}
}

func (h *Helper) takeAction(ctx context.Context, p *PromotionSlot) (err error) {
	switch p.Action {
	case PromotionDrop:
		err = dropSlot(ctx, h.sessions, Step{Slot: p.Name, Database: p.Database}, false)
	case PromotionAdvance:
		var reached protocol.LSN
		err = h.sessions.with(ctx, p.Database, func(conn *pgx.Conn) error {
			var err error
			reached, err = advance(ctx, conn, p.Name, p.Target)
			return err
		})
		if err == nil {
			p.Local = max(p.Local, reached)
			p.DuplicateBytes = uint64(max(p.Target, p.Local) - p.Local)
		}
	}
	if err == nil && p.Failover {
		err = alterSlot(ctx, h.sessions, p.Database, p.Name, "FAILOVER true")
	}
	return err
}

// release writes the report and marks every row as its subscriber's. Rows of
// slots that are gone go, the slot first. A slot that had to go and could not be
// dropped is not handed over: it is tried again until it is gone.
func (h *Helper) release(report *PromotionReport) {
	h.sayLedger(report.write(h.cfg.StateDir))
	h.sayLedger(h.ledger.Update(func(rows map[string]LedgerRow) {
		for _, p := range report.Slots {
			row, ok := rows[p.Name]
			switch {
			case !ok:
			case p.Action == PromotionMissing, p.Action == PromotionDrop && p.Error == "":
				delete(rows, p.Name)
			case p.Action == PromotionDrop:
				row.Intent = IntentDrop
				rows[p.Name] = row
			default:
				row.Released, row.Intent, row.PrimaryTimelineID = true, IntentNone, report.TimelineID
				rows[p.Name] = row
			}
		}
	}))
}

// recallPromotion reads the report that an earlier helper left in the state
// directory: of a promotion that is perhaps not finished.
func (h *Helper) recallPromotion() {
	report, err := readPromotion(h.cfg.StateDir)
	if err != nil {
		h.log.Warn().Err(err).Msg("report of the last promotion cannot be read")
	}
	h.promotion = report
}

// forgetPromotion drops a report that is not of the promotion that made the server
// the primary it is: it is a standby again, or was promoted once more since.
func (h *Helper) forgetPromotion() {
	if h.promotion != nil && h.promotion.TimelineID != h.standby.Timeline {
		h.promotion = nil
	}
}

func (h *Helper) logPromotion(report *PromotionReport) {
	for i := range report.Slots {
		p := &report.Slots[i]
		event := h.log.Info()
		if !p.Usable || p.Ahead != nil {
			event = h.log.Warn()
		}
		event = event.Str("slot_name", p.Name).Bool("usable", p.Usable).Str("action", string(p.Action)).
			Str("reason", string(p.Reason)).Stringer("confirmed_flush_lsn", p.Local).
			Stringer("last_upstream_confirmed_flush_lsn", p.Last).Uint64("duplicate_bytes", p.DuplicateBytes)
		if p.Ahead != nil {
			event = event.Stringer("subscriber_ahead_from", p.Ahead.From).Stringer("subscriber_ahead_to", p.Ahead.To)
		}
		event.Str("error", p.Error).Msg("slot after promotion")
	}
	h.log.Info().Uint32("timeline_id", report.TimelineID).Stringer("switch_lsn", report.SwitchLSN).
		Int("slots", len(report.Slots)).Msg("promotion finished")
}

// recordPrimarySlots keeps a row for each logical slot of a primary. When the
// server comes back as a standby, these are what the new primary's slots of the
// same names may replace.
func (h *Helper) recordPrimarySlots() {
	rows := map[string]LedgerRow{}
	old := h.ledger.Rows()
	for i := range h.standby.Slots {
		l := &h.standby.Slots[i]
		if l.Physical || l.Temporary || l.Synced {
			continue
		}
		row, had := old[l.Name]
		if !had || row.Database != l.Database || row.Plugin != l.Plugin {
			row = LedgerRow{Name: l.Name, Database: l.Database, Plugin: l.Plugin, ID: newIntentID(), Since: time.Now().UTC()}
		}
		row.Released, row.Intent, row.PrimaryTimelineID = true, IntentNone, h.standby.Timeline
		rows[l.Name] = row
	}
	for name, row := range old {
		if !row.Released {
			rows[name] = row // a promotion that is not finished yet
		}
	}
	h.sayLedger(h.ledger.Update(func(in map[string]LedgerRow) {
		clear(in)
		maps.Copy(in, rows)
	}))
}
