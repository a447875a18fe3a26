package relay

import (
	"fmt"

	"github.com/slotferry/slotferry/protocol"
)

// walsenders are the upstream's walsenders and logical slots, as the slot source
// read them at one moment. They are never changed.
type walsenders struct {
	list       []walsender
	slots      []logicalSlot
	inRecovery bool
}

// walsender is one of them.
type walsender struct {
	Standby

	pid      uint32
	physical bool // it has no logical slot in use
}

// logicalSlot is a logical slot of the upstream, and who consumes it now.
type logicalSlot struct {
	name      string
	active    uint32 // pid; 0: nobody
	confirmed protocol.LSN
}

// walsendersQuery reads who replicates from the upstream. A role without
// pg_read_all_stats sees of other roles' walsenders the pid alone; what is in
// pg_replication_slots everybody sees.
const walsendersQuery = `SELECT r.pid, r.application_name, r.state, r.flush_lsn, s.slot_name, s.slot_type, s.restart_lsn
FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid ORDER BY r.pid`

// logicalSlotsQuery reads who consumes the logical slots.
const logicalSlotsQuery = `SELECT slot_name, active_pid, confirmed_flush_lsn
FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT temporary ORDER BY slot_name`

// readWalsenders turns the results of walsendersQuery and logicalSlotsQuery into
// values.
func readWalsenders(results [][][][]byte, inRecovery bool) (*walsenders, error) {
	if len(results) != 2 {
		return nil, fmt.Errorf("read walsenders: %d results from the server", len(results))
	}
	w := &walsenders{inRecovery: inRecovery}
	for _, row := range results[0] {
		r := rowReader{row: row}
		w.list = append(w.list, readWalsender(&r))
		if r.err != nil {
			return nil, fmt.Errorf("read walsenders: %w", r.err)
		}
	}
	for _, row := range results[1] {
		r := rowReader{row: row}
		w.slots = append(w.slots, logicalSlot{name: r.text(), active: uint32(r.number(10, 32)), confirmed: r.lsn()})
		if r.err != nil {
			return nil, fmt.Errorf("read logical slots: %w", r.err)
		}
	}
	return w, nil
}

// readWalsender reads one row of walsendersQuery. Where the state is hidden the
// position is the slot's restart_lsn, which a walsender sets to what the standby
// has flushed (PhysicalConfirmReceivedLocation, walsender.c), and the standby is
// taken to stream: one that catches up then holds streams where it would not yet
// hold commits, never the other way round.
func readWalsender(r *rowReader) walsender {
	w := walsender{pid: uint32(r.number(10, 32))}
	w.ApplicationName = r.text()
	state, visible := r.next()
	w.Flush = r.lsn()
	slot, kind, restart := r.text(), r.text(), r.lsn()
	w.physical = kind != "logical"
	if w.physical {
		w.Slot = slot
	}
	if !visible {
		state = "streaming"
		if w.physical {
			w.Flush = restart
		}
	}
	w.Streaming = state == "streaming" || state == "stopping" // SyncRepGetCandidateStandbys, syncrep.c
	return w
}

// walsenderWatcher is told what the slot source learns of walsenders. Its methods
// are called from the source's goroutine and must not block.
type walsenderWatcher interface {
	// walsendersRead brings what was read.
	walsendersRead(*walsenders)
	// upstreamEnding says that the upstream refuses a connection where there has been
	// one, because it shuts down.
	upstreamEnding()
}

// watchWalsenders has w told of walsenders until cancel is called.
func (s *SlotSource) watchWalsenders(w walsenderWatcher) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	id := s.lastID
	s.watchers[id] = w
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}
}

// tellWatchers calls f for each watcher. A panic in one is its own.
func (s *SlotSource) tellWatchers(f func(walsenderWatcher)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		_ = s.panics.Do("watcher of walsenders", s.cfg.Logger, func() error { f(w); return nil }) // counted and logged there
	}
}
