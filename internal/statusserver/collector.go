package statusserver

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// Collector makes metrics of a status document, so that both always agree.
type Collector struct{ document func() statusdoc.Document }

// NewCollector returns a collector that asks for the document at every scrape.
func NewCollector(document func() statusdoc.Document) *Collector { return &Collector{document} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("slotferry_"+name, help, labels, nil)
}

var slotLabels = []string{"slot", "database"}

// The metrics. A help text says what the figure means and what to do about it.
var (
	descInfo  = desc("info", "Always 1; the labels say which slotferry this is.", "version", "command")
	descReady = desc("ready", "1 when /readyz answers 200. 0: see not_ready in /status for the reasons and what clears them.")

	descSourceConnected = desc("slot_source_connected",
		"1 while the upstream's slots can be read by SQL. 0: check the server in --slots, its pg_hba.conf and the password file.")
	descSourceSlots     = desc("slot_source_slots", "Slots in the last slot message.")
	descSourceAge       = desc("slot_source_message_age_seconds", "Age of the last slot message read from the upstream. Above five times --interval helpers call it stale.")
	descSourceSnapshots = desc("slot_source_snapshots_total", "Calls of pg_log_standby_snapshot() on the upstream. None while slots wait: grant EXECUTE on it.")

	descSourcePanics = desc("slot_source_panics_total", "Panics while slots were read or told of, contained: it is tried again. Above 0 is a bug in slotferry: report it, the log has the stack.")

	descMessageAge = desc("helper_message_age_seconds",
		"Age of the newest slot message at the helper. Growing: look at the relay and the connection to it. No slot is ready on stale state.")
	descStandby = desc("helper_standby", "1 while the helper's server is a standby. 0 after a promotion, or while the server cannot be reached.")
	descRole    = desc("helper_role", "What the helper's server is: 1 for one of standby, primary and unknown (it cannot be reached), else 0. Beside a primary a helper waits: alerts on slots and readiness mean nothing there.", "role")
	descReplay  = desc("helper_replay_lsn_bytes", "Replay position of the standby, as a byte position in WAL.")
	descSlots   = desc("helper_slots", "Slots by state. Fail over when none is pending or blocked; /status says what each waits for.", "state")

	descSlotReady    = desc("helper_slot_ready", "1 when it is safe to fail over to this slot. 0: the reason is in helper_slot_reason and /status.", slotLabels...)
	descSlotReason   = desc("helper_slot_reason", "Always 1; the labels say why a slot is not ready.", append(slotLabels, "state", "reason")...)
	descSlotLag      = desc("helper_slot_lag_bytes", "WAL from the standby's slot to the subscriber's position: sent twice at most after failover. It endangers nothing.", slotLabels...)
	descSlotLagTime  = desc("helper_slot_lag_seconds", "Time since the subscriber passed the standby's position of the slot. Longer than --advance-interval and growing: see steps failed, and max-sessions.", slotLabels...)
	descSlotMissing  = desc("helper_slot_missing_bytes", "WAL that the subscriber must still confirm before the slot can be made here (reason subscriber_behind; else 0). Not shrinking: look at the subscriber.", slotLabels...)
	descSlotAhead    = desc("helper_slot_subscriber_ahead_bytes", "WAL that the subscriber has confirmed and the standby has not received: promoted now, it would lack what the subscriber has. Not back at 0 soon: look at the walreceiver, or use --hold-back.", slotLabels...)
	descSlotRetained = desc("helper_slot_retained_bytes", "WAL the slot keeps on the standby. Growing: its subscriber is behind.", slotLabels...)

	descSteps = desc("helper_steps_total",
		"Steps taken on the standby, by what came of them. failed growing: the log and the slot's detail in /status say why; gated is harmless.",
		"step", "outcome")
	descPanics = desc("helper_panics_total", "Panics in a step, the anchor or the feed, contained: other slots go on. Above 0 is a bug in slotferry: report it, the log has the stack.")

	descAnchorUp       = desc("helper_anchor_up", "1 while the anchor, the source of new slots, is there. 0: slots that exist are safe, new ones wait; see anchor in /status.")
	descAnchorRetained = desc("helper_anchor_retained_bytes", "WAL the anchor keeps on the standby, at most --anchor-budget and what slots need anyway.")
)

// Describe sends nothing: which metrics there are depends on what runs.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect makes the metrics of one document.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	d := c.document()
	e := emitter(out)
	e.gauge(descInfo, 1, d.Version, d.Command)
	e.gauge(descReady, bit(d.Ready))
	if s := d.Source(); s != nil {
		e.source(s, &d)
	}
	if d.Helper != nil {
		if age := d.MessageAge(); age >= 0 {
			e.gauge(descMessageAge, age)
		}
		e.helper(d.Helper)
	}
}

type emitter chan<- prometheus.Metric

func (e emitter) gauge(d *prometheus.Desc, v float64, labels ...string) {
	e <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, valid(labels)...)
}

func (e emitter) counter(d *prometheus.Desc, v float64, labels ...string) {
	e <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, valid(labels)...)
}

// valid makes labels that Prometheus takes: a database may have any bytes for a name.
func valid(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}

func (e emitter) source(s *relay.SlotSourceStatus, d *statusdoc.Document) {
	e.gauge(descSourceConnected, bit(s.Connected))
	e.gauge(descSourceSlots, float64(s.Slots))
	if !s.LastMessage.IsZero() {
		e.gauge(descSourceAge, max(d.Time.Sub(s.LastMessage), 0).Seconds())
	}
	e.counter(descSourceSnapshots, float64(s.Snapshots))
	e.counter(descSourcePanics, float64(s.Panics))
}

func (e emitter) helper(h *decoder.Status) {
	e.gauge(descStandby, bit(h.Role == decoder.RoleStandby && h.Reason != decoder.ReasonStandbyUnreachable))
	role := h.Role
	if h.Reason == decoder.ReasonStandbyUnreachable {
		role = decoder.RoleUnknown
	}
	for _, r := range []decoder.Role{decoder.RoleStandby, decoder.RolePrimary, decoder.RoleUnknown} {
		e.gauge(descRole, bit(r == role), string(r))
	}
	if h.Standby.ReplayLSN != protocol.InvalidLSN {
		e.gauge(descReplay, float64(h.Standby.ReplayLSN))
	}
	count := map[decoder.State]int{decoder.StatePending: 0, decoder.StateReady: 0, decoder.StateBlocked: 0}
	for i := range h.Slots {
		s := &h.Slots[i]
		count[s.State]++
		e.gauge(descSlotReady, bit(s.State == decoder.StateReady), s.Name, s.Database)
		if s.Reason != decoder.ReasonNone {
			e.gauge(descSlotReason, 1, s.Name, s.Database, string(s.State), string(s.Reason))
		}
		e.gauge(descSlotLag, float64(s.Lag), s.Name, s.Database)
		e.gauge(descSlotLagTime, s.LagTime, s.Name, s.Database)
		e.gauge(descSlotMissing, float64(s.Missing), s.Name, s.Database)
		e.gauge(descSlotAhead, float64(s.Ahead), s.Name, s.Database)
		e.gauge(descSlotRetained, float64(s.Retained), s.Name, s.Database)
	}
	for _, s := range h.Steps {
		e.counter(descSteps, float64(s.Count), s.Step, s.Outcome)
	}
	e.counter(descPanics, float64(h.Panics))
	for state, n := range count {
		e.gauge(descSlots, float64(n), string(state))
	}
	e.gauge(descAnchorUp, bit(h.Anchor.Phase == decoder.AnchorLive.String() || h.Anchor.Phase == decoder.AnchorMoving.String()))
	e.gauge(descAnchorRetained, float64(h.Anchor.Retained))
}

func bit(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
