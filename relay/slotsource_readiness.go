package relay

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// readinessReader asks the upstream's own helper which slots are ready there,
// in a goroutine of its own: a helper that does not answer must not delay the
// slot messages.
type readinessReader struct {
	s      *SlotSource
	wanted atomic.Bool // the upstream is in recovery
	newest atomic.Pointer[map[string]protocol.Readiness]
}

func newReadinessReader(s *SlotSource) *readinessReader { return &readinessReader{s: s} }

// run asks at every heartbeat while the upstream is in recovery.
func (r *readinessReader) run(ctx context.Context) {
	if r.s.cfg.Readiness == nil {
		return
	}
	tick := time.NewTicker(r.s.cfg.Heartbeat)
	defer tick.Stop()
	failed := false
	for {
		if r.wanted.Load() {
			ask, cancel := context.WithTimeout(ctx, r.s.cfg.QueryTimeout)
			var m map[string]protocol.Readiness
			err := r.s.panics.Do("readiness of the upstream's slots", r.s.cfg.Logger, func() (err error) {
				m, err = r.s.cfg.Readiness(ask)
				return err
			})
			cancel()
			if err != nil {
				m = nil
			}
			r.newest.Store(&m)
			if err != nil && !failed && ctx.Err() == nil {
				r.s.cfg.Logger.Error().Err(err).Msg("readiness of the upstream's slots cannot be read: it counts as unknown")
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// apply writes what is known into the message. A primary's slots have no
// readiness.
func (r *readinessReader) apply(m *protocol.SlotMessage) {
	r.wanted.Store(m.InRecovery)
	known := r.newest.Load()
	if !m.InRecovery || known == nil {
		return
	}
	for i := range m.Slots {
		m.Slots[i].Readiness = (*known)[m.Slots[i].Name]
	}
}
