package decoder

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/slotcatalog"
	"github.com/slotferry/slotferry/protocol"
)

// viewNow is the clock of every transcript.
var viewNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// viewText builds a View from lines of text. What no line mentions is healthy: a
// standby that streams timeline 1 through the physical slot standby1 and has
// replayed 0/10000, a live anchor at 0/1000, a fresh message captured at 0/10000.
// The slots of the message are observed on top of the tracks given.
type viewText struct {
	t       *testing.T
	v       View
	history History // promotion only
}

func newViewText(t *testing.T) *viewText {
	b := &viewText{t: t}
	b.v = View{
		Now: viewNow, Standby: newHealthyStandby(),
		Upstream: Upstream{
			Arrived: viewNow,
			Message: &protocol.SlotMessage{
				Epoch: 1, Sequence: 1, SystemIdentifier: 1, TimelineID: 1, PostmasterStartTime: 1, ServerVersionNum: 180004,
				CaptureLSN: 0x10000, Interval: time.Second.Microseconds(),
				PhysicalSlots: []protocol.PhysicalSlot{{Name: "standby1", Active: true, Xmin: 700, CatalogXmin: 700}},
			},
		},
		Protection: Protection{PostmasterStart: 1, TimelineID: 1, SlotName: "standby1", Whole: true},
		Owned:      map[string]LedgerRow{}, Tracks: map[string]Track{}, Busy: map[string]bool{},
		Anchor: Anchor{
			Phase: AnchorLive, Name: anchorPrefix + "1", Position: 0x1000, RestartLSN: 0x900, CatalogXmin: 700, Proven: true,
			ProvenBy:    Protection{SlotName: "standby1", PostmasterStart: 1, TimelineID: 1},
			LastAdvance: viewNow,
		},
		Settings: DefaultSettings(),
	}
	return b
}

func newHealthyStandby() Standby {
	return Standby{
		SystemIdentifier: 1, ServerVersionNum: 180004, InRecovery: true, Replay: 0x10000, Receive: 0x10000,
		ReceivedTLI: 1, WALLevel: "logical", HotStandbyFeedback: true, WALReceiverStatusInterval: 10 * time.Second,
		PrimarySlotName: "standby1", MaxReplicationSlots: 10,
	}
}

// args are the key=value words of a line; a word alone is a flag.
type args map[string]string

func (a args) lsn(t *testing.T, key string, otherwise protocol.LSN) protocol.LSN {
	text, ok := a[key]
	if !ok {
		return otherwise
	}
	lsn, err := protocol.ParseLSN(text)
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

func (a args) num(t *testing.T, key string, otherwise int64) int64 {
	text, ok := a[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (a args) ago(t *testing.T, key string) time.Time {
	text, ok := a[key]
	if !ok {
		return time.Time{}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return viewNow.Add(-d)
}

func (a args) text(key, otherwise string) string {
	if text, ok := a[key]; ok {
		return text
	}
	return otherwise
}

func (a args) flag(key string) bool { _, ok := a[key]; return ok }

// apply reads lines into the view.
func (b *viewText) apply(input string) {
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		a, plain := args{}, []string{}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			a[key] = value
			if !strings.Contains(w, "=") {
				plain = append(plain, w)
			}
		}
		plain = append(plain, "", "")
		b.line(words[0], plain[0], plain[1], a)
	}
}

func (b *viewText) line(word, first, second string, a args) {
	t, v, m := b.t, &b.v, b.v.Upstream.Message
	switch word {
	case "upstream":
		b.upstream(first, second, a)
	case "standby":
		b.standby(first, second, a)
	case "owned":
		v.Owned[first] = LedgerRow{
			Name: first, Database: a.text("db", "app"), Plugin: a.text("plugin", "pgoutput"), ID: "1",
			Intent: Intent(a.text("intent", "")), Released: a.flag("released"), BornLSN: a.lsn(t, "born", 0x1000),
			TwoPhase: a.flag("two_phase"), PrimaryTimelineID: uint32(a.num(t, "primary_tli", 0)),
			Found: a.flag("found"),
		}
	case "track":
		v.Tracks[first] = Track{
			Confirmed: a.lsn(t, "confirmed", 0), High: a.lsn(t, "high", a.lsn(t, "confirmed", 0)),
			HighTimelineID: uint32(a.num(t, "high_tli", a.num(t, "tli", 1))), PostmasterStart: a.num(t, "postmaster", 1),
			TimelineID: uint32(a.num(t, "tli", 1)), ProvenBy: a.text("proven", ""), Heard: !a.flag("from_ledger"),
			Distrusted: a.flag("distrusted"), Consumed: a.flag("consumed"), TwoPhaseClear: a.flag("clear"),
			LastAdvance: a.ago(t, "last"), LastError: Reason(a.text("error", "")),
			Left: a.lsn(t, "left", 0), Disturbed: int(a.num(t, "disturbed", 0)), DisturbedAt: a.ago(t, "disturbed_ago"),
			Disturbance: a.text("disturbance", ""),
			LastDetail:  a.text("detail", ""), RetryAt: a.ago(t, "retry"), Cost: viewNow.Sub(a.ago(t, "cost")),
		}
		if !a.flag("cost") {
			track := v.Tracks[first]
			track.Cost = 0
			v.Tracks[first] = track
		}
	case "replayed":
		v.Standby.Replay = b.lsn(first)
	case "received":
		v.Standby.Receive = b.lsn(first)
	case "captured":
		m.CaptureLSN = b.lsn(first)
		m.Sequence++ // another message
	case "anchor":
		b.anchor(first, second, a)
	case "physical":
		m.PhysicalSlots = nil
		if first != "none" {
			m.PhysicalSlots = []protocol.PhysicalSlot{{
				Name: first, Active: !a.flag("inactive"), Temporary: a.flag("temporary"), Xmin: uint32(a.num(t, "xmin", 700)),
				CatalogXmin: uint32(a.num(t, "catalog_xmin", 700)),
			}}
		}
	case "message":
		b.message(first, a)
	case "set":
		b.set(first, second)
	case "protected": // whole, in the life of the upstream that the message is of
		v.Protection = Protection{
			PostmasterStart: m.PostmasterStartTime, TimelineID: m.TimelineID, SlotName: v.Standby.PrimarySlotName, Whole: true,
		}
	case "busy":
		v.Busy[first] = true
	case "open":
		m.OpenTransactions = append(m.OpenTransactions, protocol.OpenTransaction{
			Database: "app", Xid: uint32(a.num(t, "xid", 800)), PID: 42, XactStart: protocol.Micros(a.ago(t, "since")),
		})
	case "prepared":
		if first == "none" {
			m.PreparedTransactions = nil
			return
		}
		m.PreparedTransactions = append(m.PreparedTransactions, protocol.PreparedTransaction{
			Database: "app", GID: first, Xid: 801, Prepared: protocol.Micros(a.ago(t, "since")),
		})
	case "history":
		b.history = append(b.history, b.parseHistory(first)...)
	default:
		t.Fatalf("unknown line %q", word)
	}
}

func (b *viewText) upstream(name, lsn string, a args) {
	t, m := b.t, b.v.Upstream.Message
	keep := m.Slots[:0]
	for _, s := range m.Slots {
		if s.Name != name {
			keep = append(keep, s)
		}
	}
	m.Slots = keep
	if lsn == "gone" {
		return
	}
	u := protocol.SlotState{
		Name: name, Database: a.text("db", "app"), Plugin: a.text("plugin", "pgoutput"), TwoPhase: a.flag("two_phase"),
		Failover: a.flag("failover"), Synced: a.flag("synced"), InvalidationReason: a.text("invalid", ""), CatalogXmin: 720,
	}
	if lsn != "creating" {
		u.ConfirmedFlushLSN = b.lsn(lsn)
	}
	u.RestartLSN = a.lsn(t, "restart", u.ConfirmedFlushLSN)
	if err := u.Readiness.UnmarshalText([]byte(a.text("readiness", "unknown"))); err != nil {
		t.Fatal(err)
	}
	m.Slots = append(m.Slots, u)
}

func (b *viewText) standby(name, lsn string, a args) {
	t, s := b.t, &b.v.Standby
	keep := s.Slots[:0]
	for _, l := range s.Slots {
		if l.Name != name {
			keep = append(keep, l)
		}
	}
	s.Slots = keep
	if lsn == "gone" {
		return
	}
	l := LocalSlot{Physical: a.flag("physical"), Temporary: a.flag("temporary"), ActivePID: int32(a.num(t, "pid", 0))}
	l.Name, l.Active, l.TwoPhase, l.Synced = name, l.ActivePID != 0, a.flag("two_phase"), a.flag("synced")
	l.Database, l.Plugin = a.text("db", "app"), a.text("plugin", "pgoutput")
	if lsn != "creating" {
		l.ConfirmedFlushLSN = b.lsn(lsn)
	}
	l.RestartLSN = a.lsn(t, "restart", l.ConfirmedFlushLSN)
	l.CatalogXmin = uint32(a.num(t, "xmin", 710))
	l.InvalidationReason = a.text("invalid", "")
	if a.flag("inactive_since") {
		l.InactiveSince = protocol.Micros(a.ago(t, "inactive_since"))
	}
	s.Slots = append(s.Slots, l)
	sortSlots(s.Slots)
}

func (b *viewText) anchor(phase, position string, a args) {
	x := &b.v.Anchor
	*x = Anchor{
		Name: x.Name, Proven: !a.flag("unproven"), ProvenBy: Protection{SlotName: a.text("proven", "standby1"), PostmasterStart: 1, TimelineID: 1}, Started: a.ago(b.t, "since"), LastAdvance: a.ago(b.t, "last"),
		Copies: int(a.num(b.t, "copies", 0)), LastError: Reason(a.text("error", "")), LastDetail: a.text("detail", ""),
		RetryAt: a.ago(b.t, "retry"), CatalogXmin: uint32(a.num(b.t, "xmin", 700)),
	}
	switch phase {
	case "none":
	case "creating":
		x.Phase = AnchorCreating
	case "live":
		x.Phase = AnchorLive
	case "moving":
		x.Phase = AnchorMoving
	default:
		b.t.Fatalf("unknown phase %q", phase)
	}
	if position != "" && !strings.Contains(position, "=") {
		x.Position, x.RestartLSN = b.lsn(position), b.lsn(position)
	}
}

func (b *viewText) message(what string, a args) {
	u := &b.v.Upstream
	switch what {
	case "none":
		u.Message = nil
		return
	case "no_relay":
		u.Message, u.NoRelay = nil, true
		return
	case string(ReasonUpstreamUnreachable), string(ReasonUpstreamRefused):
		u.Message, u.Trouble, u.TroubleDetail = nil, Reason(what), "as the server says"
		return
	case "refused":
		u.Message, u.OtherSystem = nil, uint64(a.num(b.t, "system", 7))
		return
	}
	m := u.Message
	m.TimelineID = uint32(a.num(b.t, "timeline", int64(m.TimelineID)))
	m.SystemIdentifier = uint64(a.num(b.t, "system", int64(m.SystemIdentifier)))
	m.PostmasterStartTime = a.num(b.t, "postmaster", m.PostmasterStartTime)
	m.InRecovery = m.InRecovery || a.flag("in_recovery")
	if a.flag("age") {
		u.Arrived = a.ago(b.t, "age")
	}
}

func (b *viewText) set(name, value string) {
	s := &b.v.Standby
	switch name {
	case "hot_standby_feedback":
		s.HotStandbyFeedback = value == "on"
	case "wal_receiver_status_interval":
		s.WALReceiverStatusInterval = b.duration(value)
	case "primary_slot_name":
		s.PrimarySlotName = strings.TrimPrefix(value, "none")
	case "wal_level":
		s.WALLevel = value
	case "sync_replication_slots":
		s.SyncReplicationSlots = value == "on"
	case "server_version_num":
		s.ServerVersionNum = uint32(b.number(value))
	case "idle_replication_slot_timeout":
		s.IdleSlotTimeout = b.duration(value)
	case "in_recovery":
		s.InRecovery = value == "on"
	case "received_tli":
		s.ReceivedTLI = uint32(b.number(value))
	case "history": // TLI@LSN,TLI@LSN, of the timeline after the last
		s.History = b.parseHistory(strings.ReplaceAll(value, ",", "\n"))
		s.HistoryTLI = s.History.lastTimeline() + 1
	case "output_plugin_libraries":
		s.OutputPlugins = slotcatalog.SplitPluginList(value)
	case "retain_budget":
		b.v.Settings.RetainBudget = b.lsn(value)
	case "anchor_budget":
		b.v.Settings.AnchorBudget = b.lsn(value)
	default:
		b.t.Fatalf("unknown setting %q", name)
	}
}

// parseHistory reads lines of TLI@LSN.
func (b *viewText) parseHistory(text string) History {
	h, err := ParseHistory(strings.ReplaceAll(text, "@", "\t"))
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *viewText) lsn(text string) protocol.LSN { return args{"": text}.lsn(b.t, "", 0) }

func (b *viewText) number(text string) int64 { return args{"": text}.num(b.t, "", 0) }

func (b *viewText) duration(text string) time.Duration {
	return viewNow.Sub(args{"": text}.ago(b.t, ""))
}

// observe brings the tracks up to the message, as the helper's loop does.
func (b *viewText) observe() {
	m := b.v.Upstream.Message
	if m == nil || m.TimelineID != b.v.Standby.ReceivedTLI || m.SystemIdentifier != b.v.Standby.SystemIdentifier {
		return
	}
	for i := range m.Slots {
		u := &m.Slots[i]
		b.v.Tracks[u.Name] = b.v.Tracks[u.Name].Observe(m, u)
	}
}

// printDecision prints what a transcript shows of a decision.
func printDecision(d *Decision) string {
	var out strings.Builder
	if d.Overall != ReasonNone {
		fmt.Fprintf(&out, "all: %s", d.Overall)
		if d.Detail != "" {
			fmt.Fprintf(&out, " (%s)", d.Detail)
		}
		out.WriteString("\n")
	}
	for _, s := range d.Slots {
		fmt.Fprintln(&out, s)
	}
	for _, s := range d.Steps {
		out.WriteString("step " + s.String())
		if s.Kind == StepDrop && s.Database != "app" {
			out.WriteString(" in " + s.Database)
		}
		out.WriteString("\n")
	}
	if d.Anchor.Kind != AnchorNothing || d.Anchor.Why != ReasonNone && d.Anchor.Why != d.Overall {
		fmt.Fprintln(&out, d.Anchor)
	}
	if d.NeedSnapshot {
		out.WriteString("needs a standby snapshot\n")
	}
	return out.String()
}
