package decoder

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// stallWatch sees replay stand still (I-11).
type stallWatch struct {
	replay protocol.LSN
	since  time.Time
}

// stalled takes in a look and says whether replay has stood still for too long while
// WAL waits. A delay that the operator wants is no standstill, but counts as one
// when it is over. Without a walreceiver WAL comes from the archive, and whether
// any waits cannot be seen: it is taken to, since no new step begins then.
func (w *stallWatch) stalled(s *Standby, now time.Time) bool {
	waits := s.Receive > s.Replay || s.ReceivedTLI == 0
	if s.Replay != w.replay || !waits || s.ReplayPaused || !s.InRecovery {
		*w = stallWatch{replay: s.Replay, since: now}
		return false
	}
	return now.Sub(w.since) >= stallTimeout+s.ApplyDelay
}

// watchReplay gives up our own long steps when replay stands still while WAL
// waits: one of them may be what holds it up.
func (h *Helper) watchReplay() {
	s := &h.standby
	now := time.Now()
	if !h.stall.stalled(&s.Standby, now) {
		return
	}
	for name, run := range h.busy {
		if now.Sub(run.start) > stallTimeout {
			h.log.Warn().Str("slot_name", name).Stringer("replay_lsn", s.Replay).Stringer("receive_lsn", s.Receive).
				Msg("replay stands still, step is given up")
			run.cancel()
		}
	}
	if (h.anchor.Phase == AnchorCreating || h.anchor.Phase == AnchorMoving) && now.Sub(h.anchor.Started) > stallTimeout {
		h.log.Warn().Stringer("replay_lsn", s.Replay).Stringer("receive_lsn", s.Receive).
			Msg("replay stands still, anchor is given up")
		h.giveUpAnchor(ReasonWALNotReplayed, "replay stood still")
	}
}
