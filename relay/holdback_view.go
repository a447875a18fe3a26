package relay

import (
	"cmp"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// holdView is all that was known of the upstream's standbys at one moment. It is
// never changed.
type holdView struct {
	names    *StandbyNames
	known    bool            // the slot source has read the walsenders
	ending   bool            // and was refused since, because the upstream shuts down
	listed   map[uint32]bool // pids of the walsenders, those of logical streams too
	standbys []Standby
	position protocol.LSN // of names

	exempt  []string      // globs of slots whose streams are not held back
	timeout time.Duration // how long a stream may be held; 0: for ever
}

// newHoldView puts together what the slot source read and what this relay's own
// sessions heard. Which standbys there are the upstream alone knows: a session
// whose walsender it does not list belongs to another server, or has ended. So a
// standby that is gone, or was made anew, counts for nothing until it streams
// again and says itself what it has flushed, and no position of an older timeline
// lives on.
//
// read is nil before the source has read for the first time. When the source has
// lost its connection, what it read last stands: a standby that is not heard of
// any more holds streams then, which is the safe side.
func newHoldView(names *StandbyNames, read *walsenders, relayed map[uint32]relayedStandby, ending bool) *holdView {
	v := &holdView{names: names, ending: ending}
	if read == nil {
		return v
	}
	v.known, v.listed = true, make(map[uint32]bool, len(read.list))
	for _, w := range read.list {
		v.listed[w.pid] = true
		if !w.physical {
			continue
		}
		s := w.Standby
		if r, ok := relayed[w.pid]; ok {
			// Its own word counts, also before it has said a first one: what the server
			// shows may be of the stream before on the same connection.
			s.Flush, s.Relayed = r.Flush, true
			s.ApplicationName, s.Slot = cmp.Or(s.ApplicationName, r.ApplicationName), cmp.Or(s.Slot, r.Slot)
		}
		v.standbys = append(v.standbys, s)
	}
	v.position = names.Position(v.standbys)
	return v
}
