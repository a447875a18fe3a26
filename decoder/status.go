package decoder

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/protocol"
)

// Role is what the helper's server is at the moment.
type Role string

// The roles.
const (
	RoleUnknown Role = "unknown"
	RoleStandby Role = "standby"
	RolePrimary Role = "primary"
)

// Status is what a helper says of itself, its standby and its slots. Its JSON is
// a documented contract: fields are added, never renamed or removed.
type Status struct {
	Time   time.Time `json:"time"`
	Role   Role      `json:"role"`
	Reason Reason    `json:"reason"` // what holds up every slot, "" when nothing does
	Detail string    `json:"detail"`
	Hint   string    `json:"hint"`

	Standby   StandbyStatus    `json:"standby"`
	Upstream  UpstreamStatus   `json:"upstream"`
	Anchor    AnchorStatus     `json:"anchor"`
	Slots     []SlotStatusJSON `json:"slots"`
	Steps     []StepCount      `json:"steps"`     // taken since the helper's start
	Panics    uint64           `json:"panics"`    // contained since the helper's start
	Promotion *PromotionReport `json:"promotion"` // of the promotion that made the server a primary; null on a standby
}

// StandbyStatus is the server the helper serves.
type StandbyStatus struct {
	SystemIdentifier uint64       `json:"system_identifier,string"`
	ServerVersionNum uint32       `json:"server_version_num"`
	TimelineID       uint32       `json:"timeline_id"` // received; 0: no walreceiver
	ReplayLSN        protocol.LSN `json:"replay_lsn"`
	ReceiveLSN       protocol.LSN `json:"receive_lsn"`
	PrimarySlotName  string       `json:"primary_slot_name"`
	ReplayPaused     bool         `json:"replay_paused"`
}

// UpstreamStatus is what the last slot message said of the upstream.
type UpstreamStatus struct {
	SystemIdentifier uint64       `json:"system_identifier,string"`
	ServerVersionNum uint32       `json:"server_version_num"`
	TimelineID       uint32       `json:"timeline_id"`
	InRecovery       bool         `json:"in_recovery"`
	CaptureLSN       protocol.LSN `json:"capture_lsn"`
	MessageSequence  uint64       `json:"message_sequence"`
	MessageAge       float64      `json:"message_age_seconds"` // -1: none yet
	Fresh            bool         `json:"fresh"`
}

// AnchorStatus is the state of the anchor.
type AnchorStatus struct {
	Phase    string       `json:"phase"`
	Position protocol.LSN `json:"confirmed_flush_lsn"`
	Retained uint64       `json:"retained_bytes"`
	Proven   bool         `json:"protected"`
	Reason   Reason       `json:"reason"`
	Detail   string       `json:"detail"`
}

// SlotStatusJSON is one slot of a Status.
type SlotStatusJSON struct {
	Name     string       `json:"slot_name"`
	Database string       `json:"database"`
	Plugin   string       `json:"plugin"`
	State    State        `json:"state"`
	Reason   Reason       `json:"reason"`
	Detail   string       `json:"detail"`
	Hint     string       `json:"hint"`
	Since    time.Time    `json:"since"` // of this state and reason
	Upstream protocol.LSN `json:"upstream_confirmed_flush_lsn"`
	Local    protocol.LSN `json:"confirmed_flush_lsn"`
	Lag      uint64       `json:"lag_bytes"`
	LagTime  float64      `json:"lag_seconds"` // since the subscriber passed Local, as far as this helper has seen it
	Missing  uint64       `json:"missing_bytes"`
	Ahead    uint64       `json:"subscriber_ahead_bytes"` // confirmed by the subscriber, and not received by the standby
	Retained uint64       `json:"retained_bytes"`
	Exists   bool         `json:"exists"`
	Active   bool         `json:"active"`
}

// Ready reports whether every slot the upstream has is ready.
func (s *Status) Ready() bool {
	if s.Role != RoleStandby || s.Reason != ReasonNone {
		return false
	}
	for i := range s.Slots {
		if s.Slots[i].State != StateReady {
			return false
		}
	}
	return true
}

// publish makes the outcome of a look visible to the outside.
func (h *Helper) publish(v *View, d *Decision) {
	st := &Status{
		Time: v.Now, Role: RoleStandby, Reason: d.Overall, Detail: d.Detail, Hint: d.Overall.Hint(),
		Standby: StandbyStatus{
			SystemIdentifier: v.Standby.SystemIdentifier, ServerVersionNum: v.Standby.ServerVersionNum,
			TimelineID: v.Standby.ReceivedTLI, ReplayLSN: v.Standby.Replay, ReceiveLSN: v.Standby.Receive,
			PrimarySlotName: v.Standby.PrimarySlotName, ReplayPaused: v.Standby.ReplayPaused,
		},
		Upstream: UpstreamStatus{MessageAge: -1},
		Anchor: AnchorStatus{
			Phase: h.anchor.Phase.String(), Position: v.Anchor.Position, Proven: h.anchor.Proven,
			Reason: d.Anchor.Why, Detail: d.Anchor.Detail,
		},
		Steps: h.stepCounts(), Promotion: h.promotion,
	}
	if !v.Standby.InRecovery {
		st.Role = RolePrimary
	}
	if end := max(v.Standby.Receive, v.Standby.Replay); v.Anchor.RestartLSN != 0 && end > v.Anchor.RestartLSN {
		st.Anchor.Retained = uint64(end - v.Anchor.RestartLSN)
	}
	if m := v.Upstream.Message; m != nil {
		st.Upstream = UpstreamStatus{
			SystemIdentifier: m.SystemIdentifier, ServerVersionNum: m.ServerVersionNum, TimelineID: m.TimelineID,
			InRecovery: m.InRecovery, CaptureLSN: m.CaptureLSN, MessageSequence: m.Sequence,
			MessageAge: v.Now.Sub(v.Upstream.Arrived).Seconds(), Fresh: !stale(v),
		}
	}
	if v.Anchor.Phase != AnchorLive && v.Anchor.Phase != AnchorMoving && st.Anchor.Reason == ReasonNone {
		x := whyNoAnchor(v) // there is a message: without one the decision has said why
		st.Anchor.Reason, st.Anchor.Detail = x.reason, x.detail
	}
	h.logOverall(d)
	since := map[string]time.Time{}
	for _, old := range h.status.Load().Slots {
		since[old.key()] = old.Since
	}
	st.Slots = make([]SlotStatusJSON, 0, len(d.Slots))
	h.ready = make(map[string]bool, len(d.Slots))
	lags := make(map[string]*lagClock, len(d.Slots))
	if v.Standby.InRecovery {
		h.pending = nil
	}
	for i := range d.Slots {
		s := d.Slots[i].json(v.Now)
		if t, ok := since[s.key()]; ok {
			s.Since = t
		}
		lag := h.lags[s.Name]
		if lag == nil {
			lag = new(lagClock)
		}
		lags[s.Name], s.LagTime = lag, lag.read(v.Now, s.Upstream, s.Local).Seconds()
		st.Slots = append(st.Slots, s)
		h.ready[s.Name] = s.State == StateReady
		if v.Standby.InRecovery && !s.Exists && s.Reason != ReasonSlotSync && s.Reason != ReasonNotOnUpstream {
			h.pending = append(h.pending, s)
		}
		h.logSlot(&s)
	}
	h.lags = lags
	h.status.Store(st)
	h.publishReport(st)
}

func (s *SlotStatusJSON) key() string {
	return s.Name + "\x00" + string(s.State) + "\x00" + string(s.Reason)
}

func (s SlotStatus) json(now time.Time) SlotStatusJSON {
	return SlotStatusJSON{
		Name: s.Name, Database: s.Database, Plugin: s.Plugin, State: s.State, Reason: s.Reason, Detail: s.Detail,
		Hint: s.Reason.Hint(), Since: now, Upstream: s.Upstream, Local: s.Local, Lag: uint64(s.Lag),
		Missing: uint64(s.Missing), Ahead: uint64(s.Ahead), Retained: uint64(s.Retained), Exists: s.Exists, Active: s.Active,
	}
}

// logOverall writes one line when something begins to hold up every slot, or
// ends to: there may be no slot that would say so.
func (h *Helper) logOverall(d *Decision) {
	event := h.log.Info()
	if d.Overall != ReasonNone {
		event = h.log.Warn().Str("reason", string(d.Overall)).Str("detail", d.Detail).Str("hint", d.Overall.Hint())
	}
	msg := "nothing holds up all slots"
	if d.Overall != ReasonNone {
		msg = "all slots are held up"
	}
	if d.Overall == ReasonNotInRecovery || d.Overall == ReasonNoUpstreamState && h.said["overall"] == "" {
		event.Discard() // what a start always shows, and what the role says
		return
	}
	h.say("overall", string(d.Overall)+" ", event, msg)
}

// sayOthers writes a line each time that somebody else has dropped or moved a slot.
func (h *Helper) sayOthers(tracks map[string]Track) {
	for name, t := range tracks {
		if t.Disturbed > h.tracks[name].Disturbed {
			h.log.Warn().Str("slot_name", name).Str("disturbance", t.Disturbance).Int("times", t.Disturbed).Str("hint", ReasonOtherManager.Hint()).
				Msg("slot was changed on the standby, and not by the helper")
		}
	}
}

// logSlot writes one line for a change of a slot's state. What passes in
// milliseconds is not worth one.
func (h *Helper) logSlot(s *SlotStatusJSON) {
	if s.Reason == ReasonBeingMade || s.Reason == ReasonNotInRecovery {
		return
	}
	event := h.log.Info()
	if s.State == StateBlocked {
		event = h.log.Warn()
	}
	event = event.Str("slot_name", s.Name).Str("database", s.Database).Str("state", string(s.State)).
		Stringer("upstream_confirmed_flush_lsn", s.Upstream).Stringer("confirmed_flush_lsn", s.Local)
	if s.Reason != ReasonNone {
		event = event.Str("reason", string(s.Reason)).Str("detail", s.Detail).Str("hint", s.Hint)
	}
	h.say("state "+s.Name, string(s.State)+string(s.Reason), event, "slot state")
}

// unreachableReason says why the standby cannot be looked at.
func unreachableReason(err error) Reason {
	var refused *pgconn.ConnectError
	if sqlState(err) == codePrivilege && !errors.As(err, &refused) {
		return ReasonPrivilege
	}
	return ReasonStandbyUnreachable
}

// publishUnreachable shows and logs that nothing can be done before the cause
// is removed.
func (h *Helper) publishUnreachable(reason Reason, err error) {
	old := *h.status.Load()
	if reason != ReasonLedger {
		h.say("standby", err.Error(), h.log.Warn().Err(err).Str("reason", string(reason)).Str("hint", reason.Hint()),
			"standby cannot be looked at")
	}
	old.Time, old.Reason, old.Detail, old.Hint = time.Now(), reason, err.Error(), reason.Hint()
	slots := make([]SlotStatusJSON, len(old.Slots))
	for i, s := range old.Slots {
		if now := errorState(reason); s.State != now || s.Reason != reason {
			s.Since = old.Time
			s.State, s.Reason, s.Detail, s.Hint = now, reason, "", reason.Hint()
		}
		slots[i] = s
	}
	old.Slots = slots
	h.status.Store(&old)
	h.publishReport(&old)
}

// publishReport replaces the report for the relay when it says something new.
func (h *Helper) publishReport(st *Status) {
	body := &protocol.HelperReport{
		SystemIdentifier: st.Standby.SystemIdentifier, Standby: st.Standby.PrimarySlotName, SnapshotRequest: h.snapshots,
		Slots: make([]protocol.SlotReport, 0, len(st.Slots)),
	}
	for i := range st.Slots {
		s := &st.Slots[i]
		body.Slots = append(body.Slots, protocol.SlotReport{Name: s.Name, State: string(s.State), Reason: string(s.Reason)})
	}
	old := h.report.Load()
	if sameReport(old.body, body) {
		return
	}
	h.report.Store(&report{body: body, changed: make(chan struct{})})
	close(old.changed)
}

func sameReport(a, b *protocol.HelperReport) bool {
	if a.SystemIdentifier != b.SystemIdentifier || a.Standby != b.Standby || a.SnapshotRequest != b.SnapshotRequest ||
		len(a.Slots) != len(b.Slots) {
		return false
	}
	for i := range a.Slots {
		if a.Slots[i] != b.Slots[i] {
			return false
		}
	}
	return true
}
