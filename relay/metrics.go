package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the relay's counters. Pumps add to plain atomics; Prometheus
// reads them when it asks.
type metrics struct {
	bytesDownstream  atomic.Uint64
	bytesUpstream    atomic.Uint64
	framesSpliced    atomic.Uint64
	framesStripped   atomic.Uint64
	framesDamaged    atomic.Uint64
	messagesStripped atomic.Uint64
}

func newMetrics(r *Relay, reg prometheus.Registerer) (*metrics, error) {
	m := new(metrics)
	if reg == nil {
		return m, nil
	}
	counter := func(name, help string, labels prometheus.Labels, read func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "slotferry", Subsystem: "relay", Name: name, Help: help, ConstLabels: labels,
		}, read)
	}
	load := func(v *atomic.Uint64) func() float64 { return func() float64 { return float64(v.Load()) } }
	direction := func(d Direction) prometheus.Labels { return prometheus.Labels{"direction": d.String()} }
	collectors := []prometheus.Collector{
		counter("bytes_total", "Bytes read and dealt with. Downstream at rest while the upstream writes: look at the session's state in /status.", direction(Downstream), load(&m.bytesDownstream)),
		counter("bytes_total", "Bytes read and dealt with. Downstream at rest while the upstream writes: look at the session's state in /status.", direction(Upstream), load(&m.bytesUpstream)),
		counter("frames_spliced_total", "Frames of slot messages and reports put in. None downstream: no helper has asked for slot messages.", nil, load(&m.framesSpliced)),
		counter("frames_stripped_total", "Frames of slot messages and reports taken out. None at a helper: see not_ready in /status.", nil, load(&m.framesStripped)),
		counter("frames_damaged_total", "Frames taken out that could not be decoded. Growing: the relay and the helper differ too much in version.", nil, load(&m.framesDamaged)),
		counter("slot_messages_stripped_total", "Whole slot messages taken out. Not growing at a helper: look at the relay and the way to it.", nil, load(&m.messagesStripped)),
		counter("connections_total", "Connections accepted. Growing fast: somebody connects again and again, the log says who and why it ends.", nil, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(r.accepted)
		}),
		counter("sessions_failed_total", "Sessions that ended with an error. Port scans count. Growing: the log has the causes, of those that end before their login ten a minute.", nil, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(r.failed)
		}),
		counter("panics_total", "Panics on the slot side that were contained: WAL goes on. Above 0 is a bug in slotferry: report it, the log has the stack.", nil, func() float64 {
			return float64(r.panics.Count())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "slotferry", Subsystem: "relay", Name: "sessions", Help: "Sessions open now. 0 where a standby should stream: check its primary_conninfo and the log.",
		}, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(len(r.sessions))
		}),
	}
	if r.hold != nil {
		collectors = append(collectors, r.hold.collectors(r)...)
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// moved counts bytes of one direction.
func (m *metrics) moved(d Direction, n int) {
	if d == Downstream {
		m.bytesDownstream.Add(uint64(n))
	} else {
		m.bytesUpstream.Add(uint64(n))
	}
}
