package relay

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slotferry/slotferry/protocol"
)

// HoldBackStatus is what hold-back knows at one moment.
type HoldBackStatus struct {
	Standbys string   `json:"standbys"` // the list, as it was given
	Exempt   []string `json:"exempt"`   // globs
	Timeout  float64  `json:"timeout_seconds"`

	// Known is false until the upstream's walsenders have been read.
	Known bool `json:"known"`

	// Position is up to where enough of the standbys have flushed: what subscribers
	// get. 0/0 when too few of them stream.
	Position protocol.LSN `json:"position"`

	// Connected are the upstream's physical walsenders.
	Connected []Standby `json:"connected"`

	// Slots are the upstream's logical slots, with those that are not held back.
	Slots []HoldSlot `json:"slots"`

	LetGo uint64 `json:"let_go"` // streams let go because of the timeout, since start
	Ended uint64 `json:"ended"`  // streams ended while they were held
}

// StreamHold is how hold-back stands with one logical stream.
type StreamHold struct {
	Slot     string       `json:"slot_name"` // "" when that is not certain
	State    string       `json:"state"`     // passing, held, let_go or exempt
	WaitsFor protocol.LSN `json:"waits_for"` // 0/0: for nothing
	Since    *time.Time   `json:"held_since"`
	Reason   HoldReason   `json:"reason"`
	By       []string     `json:"held_by"` // who has to flush
	Hint     string       `json:"hint"`    // what to do, once it has been held for long

	// Creates is set when what is held or let go is the answer to
	// CREATE_REPLICATION_SLOT, and the slot the one it makes.
	Creates bool `json:"creates_slot"`
}

// HasHold reports whether there is something in the session that is, or can be,
// held back now: a logical stream, or the creation of a slot.
func (s *SessionStatus) HasHold() bool {
	return s.HoldBack != nil && (s.State == "copy" || s.HoldBack.Creates)
}

// Text is the state for people.
func (h *StreamHold) Text() string {
	text := strings.ReplaceAll(h.State, "_", " ")
	if h.Creates {
		text += ", being created"
	}
	return text
}

func (b *holdHub) status() *HoldBackStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.view.Load()
	st := &HoldBackStatus{
		Standbys: v.names.String(), Exempt: append([]string{}, b.cfg.Exempt...), Timeout: b.cfg.Timeout.Seconds(), Known: v.known,
		Position: v.position, Connected: append([]Standby{}, v.standbys...), Slots: append([]HoldSlot{}, b.slots...),
		LetGo: b.counts.letGo.Load(), Ended: b.counts.ended.Load(),
	}
	creating := map[string]bool{}
	for s := range b.streams {
		if slot := s.creating.Load(); slot != nil {
			creating[*slot] = true
		}
	}
	for i := range st.Slots {
		// Without a position nobody knows how much: then it is not called ahead either.
		// A slot whose creation is held has a position, and nobody who knows of it.
		if s := &st.Slots[i]; v.position != protocol.InvalidLSN && s.ConfirmedFlushLSN > v.position && !creating[s.Name] {
			s.Ahead = uint64(s.ConfirmedFlushLSN - v.position)
		}
	}
	return st
}

// status says how the stream stands. Called with s.mu held.
func (k *heldStream) status() *StreamHold {
	g := k.s.down.flow.gate
	st := &StreamHold{State: "passing", By: []string{}}
	if !k.active() {
		return st
	}
	st.Slot, st.Creates = g.slot, g.creates
	at := g.waitsFor()
	switch {
	case g.stream.Exempt:
		st.State, st.Reason = "exempt", HoldExempt
	case g.stream.LetGo:
		st.State, st.Reason, st.Hint = "let_go", HoldTimeout, HoldTimeout.Hint()
	case at != protocol.InvalidLSN:
		since := k.clock.since.UTC()
		d := k.back.view.Load().decide(g.stream, at)
		st.State, st.WaitsFor, st.Since, st.Reason = "held", at, &since, d.Reason
		st.By = append(st.By, d.By...)
		if time.Since(since) >= HeldLong {
			st.Hint = d.Reason.Hint()
		}
	}
	return st
}

// collectors are the metrics of hold-back. Those of one slot bear its name.
func (b *holdHub) collectors(r *Relay) []prometheus.Collector {
	name := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "slotferry", Subsystem: "relay", Name: "hold_back_" + name, Help: help}
	}
	streams := func(want string) func() float64 {
		return func() (n float64) {
			for _, s := range r.Status().Sessions {
				if s.HoldBack != nil && s.HoldBack.State == want {
					n++
				}
			}
			return n
		}
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("streams_held",
			"Logical streams and creations of slots that wait for standbys now. Above 0 for long: see held_by in /status.")), streams("held")),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("streams_let_go",
			"Logical streams let go because of --hold-back-timeout: their subscribers can be ahead of the next primary.")), streams("let_go")),
		prometheus.NewCounterFunc(prometheus.CounterOpts(name("let_go_total",
			"How often a logical stream or the creation of a slot was let go because of --hold-back-timeout.")), func() float64 { return float64(b.counts.letGo.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts(name("ended_total",
			"Logical streams and creations of slots ended while they were held: the upstream shut down, one end was lost, or the client canceled.")),
			func() float64 { return float64(b.counts.ended.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("position_bytes",
			"Up to where enough standbys have flushed, as a byte position in WAL. 0: too few of them stream.")),
			func() float64 { return float64(b.view.Load().position) }),
		&slotCollector{b: b, desc: prometheus.NewDesc("slotferry_relay_hold_back_subscriber_ahead_bytes",
			"WAL that the slot's subscriber has confirmed and the standbys have not flushed. Above 0 for long: it is not held back, or was let go, or another standby counts now; see consumer in /status.",
			[]string{"slot", "consumer"}, nil)},
	}
}

// slotCollector makes the metric that each slot has.
type slotCollector struct {
	b    *holdHub
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *slotCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *slotCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.b.status().Slots {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(s.Ahead), s.Name, string(s.Consumer))
	}
}
