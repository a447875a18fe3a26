package decoder

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// look reads both sides once, decides, and begins what was decided.
func (h *Helper) look(ctx context.Context) {
	up := h.inbox.get() // before the standby is read: its slots never look older than what protects them
	h.trouble = up.Trouble
	if err := h.observe(ctx); err != nil {
		if ctx.Err() != nil {
			return
		}
		h.publishUnreachable(unreachableReason(err), err)
		return
	}
	h.say("standby", "ok", h.log.Info().Uint32("server_version_num", h.standby.ServerVersionNum).
		Bool("in_recovery", h.standby.InRecovery), "standby is looked at")
	if h.ledger == nil {
		if err := h.openLedger(); err != nil {
			h.say("ledger", err.Error(), h.log.Error().Err(err).Str("hint", ReasonLedger.Hint()), "ledger cannot be opened")
			h.publishUnreachable(ReasonLedger, err)
			return
		}
	}
	if err := otherNode(h.node, h.identity()); err != nil {
		h.queue = nil
		h.publishUnreachable(ReasonStandbyUnreachable, err)
		return
	}
	if !h.standby.InRecovery || !onlyCopies(h.outcomes) {
		h.recordOutcomes()
	}
	up = h.takeMessage(up)
	h.forgetPromotion()
	h.sayLedger(h.ledger.Update(func(rows map[string]LedgerRow) { takeRenames(rows, h.tracks, &h.standby.Standby) }))
	if !h.standby.InRecovery {
		h.onPrimary(ctx)
	}
	h.readSwitches(ctx)
	h.dropLostAnchor()
	view := h.view(up)
	d := Decide(&view)
	h.sayOthers(d.Tracks)
	maps.Copy(h.tracks, d.Tracks)
	h.anchor.Proven, h.anchor.ProvenBy, h.protection = d.AnchorProven, d.ProvenBy, d.Protection
	h.sayLedger(h.ledger.Protect(d.Protection))
	h.actAnchor(ctx, &d)
	h.publish(&view, &d) // before the disk is waited for: what was made can be used already
	h.recordOutcomes()
	if h.standby.InRecovery {
		h.sayLedger(h.ledger.Update(func(rows map[string]LedgerRow) { rememberVerdict(rows, h.tracks, &h.standby.Standby) }))
	}
	h.watchReplay()
	h.act(ctx, &d)
	h.saveCheckpoint()
}

// observe reads the standby's state over a session that does nothing else.
func (h *Helper) observe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var err error
	if h.monitor == nil || h.monitor.IsClosed() {
		if h.monitor, err = h.sessions.connect(ctx, ""); err != nil {
			h.monitor = nil
			return err
		}
	}
	facts, err := readStandby(ctx, h.monitor)
	if err != nil {
		closeSession(h.monitor)
		h.monitor = nil
		return err
	}
	facts.History, facts.HistoryTLI = h.standby.History, h.standby.HistoryTLI
	h.standby = facts
	return nil
}

func (h *Helper) identity() NodeIdentity {
	return NodeIdentity{
		SystemIdentifier: h.standby.SystemIdentifier, DataDirectory: h.standby.dataDirectory, Host: h.cfg.Host,
	}
}

// otherNode notices that the address of the standby has come to lead to another
// server, whose slots are not those of the ledger that was opened (I-9).
func otherNode(was, now NodeIdentity) error {
	if was == now {
		return nil
	}
	return fmt.Errorf("the address leads to %s of system %d now, and not to %s of system %d: start the helper anew if that is meant",
		now.DataDirectory, now.SystemIdentifier, was.DataDirectory, was.SystemIdentifier)
}

// otherNodeHint is for a ledger that is not believed.
const otherNodeHint = "If it is this node's, its name has changed, as a container's does: give --node-name. Slots on the standby are taken over, and may have to wait until their subscribers go on."

func (h *Helper) openLedger() error {
	h.node = h.identity()
	ledger, setAside, err := OpenLedger(h.cfg.StateDir, h.node)
	if err != nil {
		return err
	}
	h.ledger = ledger
	if setAside != "" {
		h.log.Warn().Str("detail", setAside).Str("hint", otherNodeHint).Msg("ledger is not of this node and was set aside")
	} else {
		h.recallPromotion()
	}
	h.protection = ledger.Protection()
	rows := ledger.Rows()
	for name := range rows {
		row := rows[name]
		h.tracks[name] = row.track()
	}
	h.log.Info().Int("slots", len(rows)).Str("data_directory", h.node.DataDirectory).Msg("ledger opened")
	return nil
}

// takeMessage brings the tracks up to the newest slot message. A message of
// another system is refused here, before anything of it is remembered (I-6).
func (h *Helper) takeMessage(up Upstream) Upstream {
	m := up.Message
	if m == nil {
		if up.System != 0 && up.System != h.standby.SystemIdentifier {
			up.OtherSystem = up.System // the walreceiver refuses it too, so no message will come
		}
		return up
	}
	if m.SystemIdentifier != h.standby.SystemIdentifier {
		h.say("system", "other", h.log.Error().Uint64("upstream", m.SystemIdentifier).
			Uint64("standby", h.standby.SystemIdentifier).Str("hint", ReasonOtherSystem.Hint()),
			"slot messages are of another cluster and are ignored")
		up.OtherSystem, up.Message = m.SystemIdentifier, nil
		return up
	}
	if err := possible(m); err != nil {
		h.say("names", "impossible", h.log.Error().Err(err).Str("hint", "Whatever speaks at --upstream is no slotferry relay, or its server is damaged."),
			"a slot message has a name that no server can have, and is ignored")
		up.Message = nil
		return up
	}
	h.say("names", "", h.log.Debug(), "slot messages have possible names")
	h.say("system", "same", h.log.Info().Uint64("system_identifier", m.SystemIdentifier), "slot messages arrive")
	// Only what belongs to the history that is received counts as U: a message of
	// the old primary after a switch, or of the new one before it, does not. When the
	// walreceiver has gone, perhaps because a promotion is under way, the last
	// timeline it received is still the one that was replayed.
	if tli := h.standby.ReceivedTLI; tli != 0 {
		h.lastTLI = tli
	}
	if h.seen == m || m.TimelineID != h.lastTLI {
		return up
	}
	h.seen = m
	names := make(map[string]bool, len(m.Slots))
	for i := range m.Slots {
		u := &m.Slots[i]
		names[u.Name] = true
		h.tracks[u.Name] = h.tracks[u.Name].Observe(m, u)
	}
	h.forgetTracks(names)
	return up
}

// forgetTracks forgets slots that the upstream has no more. Where the ledger has a
// row, what is known of our own slot stays until that is dropped: its last error
// holds the next try back, and a promotion has to know what was wrong with it.
func (h *Helper) forgetTracks(upstream map[string]bool) {
	for name, t := range h.tracks {
		if upstream[name] || h.busy[name].cancel != nil {
			continue
		}
		if _, owned := h.ledger.body.Slots[name]; owned {
			h.tracks[name] = t.gone()
			continue
		}
		delete(h.tracks, name)
		delete(h.said, "slot "+name)
		delete(h.said, "state "+name)
	}
}

// readSwitches learns where the timelines before the one that is received ended. It
// is needed for adoption and after a switch, and asked for once per timeline.
func (h *Helper) readSwitches(ctx context.Context) {
	tli := h.standby.ReceivedTLI
	if tli == 0 || tli == h.standby.HistoryTLI || time.Now().Before(h.historyNext) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	history, err := readHistory(ctx, h.sessions, tli)
	if err != nil {
		h.historyNext = time.Now().Add(2 * time.Second)
		h.say("history", err.Error(), h.log.Warn().Err(err), "timeline history cannot be read")
		return
	}
	h.standby.History, h.standby.HistoryTLI = history, tli
	h.say("history", fmt.Sprint(tli), h.log.Info().Uint32("timeline_id", tli).
		Stringer("switch_lsn", history.LastSwitch()), "timeline is received")
}

func (h *Helper) view(up Upstream) View {
	v := View{
		Now: time.Now(), Standby: h.standby.Standby, Upstream: up, Owned: h.ledger.Rows(), Tracks: h.tracks,
		Protection: h.protection, Anchor: h.anchor, Busy: make(map[string]bool, len(h.busy)), Settings: h.cfg.Settings,
	}
	for _, o := range h.outcomes {
		writeOutcome(v.Owned, o.step, o.lsn) // in the ledger itself a moment later
	}
	v.Settings.CreateDeadline += h.standby.ApplyDelay
	for name, run := range h.busy {
		v.Busy[name] = true
		if run.step.Kind == StepCopy {
			v.Anchor.Copies++
		}
	}
	if l, ok := v.Standby.Slot(h.anchor.Name); ok && h.anchor.Phase != AnchorCreating {
		v.Anchor.Position, v.Anchor.RestartLSN, v.Anchor.CatalogXmin = l.ConfirmedFlushLSN, l.RestartLSN, l.CatalogXmin
	}
	return v
}

// dropLostAnchor notices that the server has dropped the anchor: a recovery
// conflict ends its session, and the slot with it.
func (h *Helper) dropLostAnchor() {
	if h.anchor.Phase != AnchorLive {
		return
	}
	if l, ok := h.standby.Slot(h.anchor.Name); ok && l.InvalidationReason == "" {
		return
	}
	h.giveUpAnchor(ReasonRecoveryConflict, "the anchor's session was ended by the server")
}

// saveCheckpoint writes to the ledger what a restarted helper needs to know of
// the past.
func (h *Helper) saveCheckpoint() {
	if !h.standby.InRecovery || time.Since(h.checkpoint) < checkpointInterval {
		return
	}
	h.checkpoint = time.Now()
	h.sayLedger(h.ledger.Update(func(rows map[string]LedgerRow) { rememberTracks(rows, h.tracks) }))
}

func (h *Helper) sayLedger(err error) {
	if err != nil {
		h.say("ledger", err.Error(), h.log.Error().Err(err).Str("hint", ReasonLedger.Hint()), "ledger cannot be written")
		return
	}
	h.say("ledger", "", h.log.Debug(), "ledger is written")
}
