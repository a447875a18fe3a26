package trace

import (
	"encoding/hex"
	"strconv"

	"github.com/slotferry/slotferry/protocol"
)

func itoa(n int) string { return strconv.Itoa(n) }

func hexText(b []byte) string { return `\x` + hex.EncodeToString(b) }

// describeSlotMessage shows a part of a slot message, and the whole of it where
// the part completes one.
func (m *Message) describeSlotMessage(e *encoder) {
	x, p := &m.s.xlog, &m.s.part
	e.lsn("wal_end", x.WALEnd)
	m.sent(e, x.SendTime)
	if m.s.slotsErr != nil {
		m.note(m.s.slotsErr)
		e.hex("data", x.Data, maxHex)
		return
	}
	e.num("version", uint64(p.Version))
	e.str("epoch", strconv.FormatUint(p.Epoch, 10))
	e.num("sequence", p.Sequence)
	e.num("part", uint64(p.Number)+1)
	e.num("parts", uint64(p.Count))
	if s := m.s.slots; s != nil {
		describeSlotState(e, s)
	}
}

func describeSlotState(e *encoder, s *protocol.SlotMessage) {
	e.str("system_identifier", strconv.FormatUint(s.SystemIdentifier, 10))
	e.num("timeline_id", uint64(s.TimelineID))
	e.micros("postmaster_start_time", s.PostmasterStartTime)
	e.num("server_version_num", uint64(s.ServerVersionNum))
	e.flag("in_recovery", s.InRecovery)
	e.lsn("capture_lsn", s.CaptureLSN)
	e.micros("capture_time", s.CaptureTime)
	e.int("interval", s.Interval)
	e.list("slots")
	for i := range s.Slots {
		e.object("")
		describeSlot(e, &s.Slots[i])
		e.end('}')
	}
	e.end(']')
	e.list("physical_slots")
	for _, p := range s.PhysicalSlots {
		e.object("")
		e.str("slot_name", p.Name)
		e.flag("active", p.Active)
		e.flag("temporary", p.Temporary)
		e.lsn("restart_lsn", p.RestartLSN)
		e.num("xmin", uint64(p.Xmin))
		e.num("catalog_xmin", uint64(p.CatalogXmin))
		e.end('}')
	}
	e.end(']')
	e.list("open_transactions")
	for _, t := range s.OpenTransactions {
		e.object("")
		e.str("database", t.Database)
		e.num("xid", uint64(t.Xid))
		e.int("pid", int64(t.PID))
		e.micros("xact_start", t.XactStart)
		e.end('}')
	}
	e.end(']')
	e.list("prepared_transactions")
	for _, t := range s.PreparedTransactions {
		e.object("")
		e.str("database", t.Database)
		e.str("gid", t.GID)
		e.num("xid", uint64(t.Xid))
		e.micros("prepared", t.Prepared)
		e.end('}')
	}
	e.end(']')
}

func describeSlot(e *encoder, s *protocol.SlotState) {
	e.str("slot_name", s.Name)
	e.str("plugin", s.Plugin)
	e.str("database", s.Database)
	e.lsn("restart_lsn", s.RestartLSN)
	e.lsn("confirmed_flush_lsn", s.ConfirmedFlushLSN)
	e.num("catalog_xmin", uint64(s.CatalogXmin))
	e.flag("two_phase", s.TwoPhase)
	e.lsn("two_phase_at", s.TwoPhaseAt)
	e.flag("failover", s.Failover)
	e.flag("synced", s.Synced)
	e.flag("active", s.Active)
	e.str("invalidation_reason", s.InvalidationReason)
	e.str("wal_status", s.WALStatus)
	if s.InactiveSince != 0 {
		e.micros("inactive_since", s.InactiveSince)
	} else {
		e.null("inactive_since")
	}
	e.str("readiness", s.Readiness.String())
}

func describeReport(e *encoder, h *protocol.HelperReport) {
	e.str("system_identifier", strconv.FormatUint(h.SystemIdentifier, 10))
	e.str("standby", h.Standby)
	e.num("snapshot_request", h.SnapshotRequest)
	e.list("slots")
	for _, s := range h.Slots {
		e.object("")
		e.str("slot_name", s.Name)
		e.str("state", s.State)
		e.str("reason", s.Reason)
		e.end('}')
	}
	e.end(']')
}
