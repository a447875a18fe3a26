package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/contain"
	"github.com/slotferry/slotferry/protocol"
)

// SlotSource reads the upstream's slots over one ordinary SQL connection, for
// all sessions.
type SlotSource struct {
	cfg      SlotSourceConfig
	conn     *pgconn.Config
	filter   atomic.Pointer[slotFilter]
	snapshot chan struct{} // holds one request at most
	counts   sourceCounts
	panics   contain.Panics

	// mu guards what follows. Subscribers are called with it held.
	mu          sync.Mutex
	newest      *publication // nil while there is no connection
	subscribers map[uint64]func(*publication)
	watchers    map[uint64]walsenderWatcher
	lastID      uint64
	status      SlotSourceStatus
}

// sourceCounts are counters that Status and tests read.
type sourceCounts struct{ polls, messages, snapshots atomic.Uint64 }

// NewSlotSource checks the configuration. Its error names everything that is
// wrong.
func NewSlotSource(cfg SlotSourceConfig) (*SlotSource, error) {
	cfg, conn, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &SlotSource{
		cfg: cfg, conn: conn, snapshot: make(chan struct{}, 1), subscribers: map[uint64]func(*publication){},
		watchers: map[uint64]walsenderWatcher{},
	}
	return s, s.SetFilters(cfg.SlotFilters)
}

// SetFilters replaces the filters; the next look at the catalog uses them.
func (s *SlotSource) SetFilters(f SlotFilters) error {
	filter, err := newSlotFilter(f)
	if err != nil {
		return err
	}
	s.filter.Store(filter)
	return nil
}

// Subscribe calls f with every message, with the newest one at once if the
// source has its connection still. f is called from the source's goroutine or
// from Subscribe itself, must not block, must not call the source, and must not
// change the message. After cancel has returned f is not called again.
func (s *SlotSource) Subscribe(f func(*protocol.SlotMessage)) (cancel func()) {
	return s.subscribe(func(p *publication) {
		if p != nil {
			f(p.message)
		}
	})
}

// subscribe is Subscribe with the message encoded; nil says that the source
// lost its connection.
func (s *SlotSource) subscribe(f func(*publication)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	id := s.lastID
	s.subscribers[id] = f
	if s.newest != nil {
		s.tell(f, s.newest)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, id)
	}
}

func (s *SlotSource) publish(p *publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = p
	for _, f := range s.subscribers {
		s.tell(f, p)
	}
	if p == nil {
		s.status.Connected = false
		return
	}
	s.counts.messages.Add(1)
	m := p.message
	s.status.SystemIdentifier, s.status.TimelineID = m.SystemIdentifier, m.TimelineID
	s.status.ServerVersionNum, s.status.InRecovery = m.ServerVersionNum, m.InRecovery
	s.status.Epoch, s.status.Sequence = m.Epoch, m.Sequence
	s.status.Slots, s.status.LastMessage = len(m.Slots), time.Now()
}

// tell calls a subscriber. A panic in it is its own: neither the session that begins
// with this nor the other subscribers see it.
func (s *SlotSource) tell(f func(*publication), p *publication) {
	_ = s.panics.Do("subscriber of slot messages", s.cfg.Logger, func() error { f(p); return nil }) // counted and logged there
}

// RequestSnapshot asks for a pg_log_standby_snapshot() on the upstream. It
// does not wait. Requests are coalesced, at most one call is made per
// SnapshotInterval, and none on an upstream in recovery.
func (s *SlotSource) RequestSnapshot() {
	select {
	case s.snapshot <- struct{}{}:
	default: // one is waiting already
	}
}

// Status returns what is known now. It may be called at any time.
func (s *SlotSource) Status() SlotSourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Snapshots, st.Panics = s.counts.snapshots.Load(), s.panics.Count()
	return st
}

// address returns what the source is connected to, "" for nothing.
func (s *SlotSource) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.Connected {
		return ""
	}
	return s.status.Upstream
}

// Run reads until ctx ends, and reconnects when the connection is lost. Its
// error is nil when ctx ended it.
func (s *SlotSource) Run(ctx context.Context) error {
	const shortest, longest = 200 * time.Millisecond, 5 * time.Second
	pause := shortest
	for {
		served := false
		err := s.panics.Do("reading slots", s.cfg.Logger, func() (err error) {
			served, err = s.serve(ctx)
			return err
		})
		s.publish(nil) // never a stale message for a fresh one
		if ctx.Err() != nil {
			return nil
		}
		s.lost(err)
		if pe := new(pgconn.PgError); errors.As(err, &pe) && pe.Code == codeCannotConnectNow {
			s.tellWatchers(walsenderWatcher.upstreamEnding)
		}
		if served {
			pause = shortest
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// lost notes why there is no connection. It is logged when it is another
// reason than before.
func (s *SlotSource) lost(err error) {
	hint := sourceHint(err)
	s.mu.Lock()
	changed := s.status.Error != err.Error()
	s.status.Error, s.status.Hint = err.Error(), hint
	s.status.Refused = errors.As(err, new(*pgconn.PgError))
	s.mu.Unlock()
	if changed {
		s.cfg.Logger.Error().Err(err).Str("hint", hint).Msg("slots cannot be read: no slot messages until they can")
	}
}

// connected notes the connection.
func (s *SlotSource) connected(address string) {
	s.mu.Lock()
	s.status.Connected, s.status.Upstream = true, address
	s.status.Error, s.status.Hint = "", ""
	s.mu.Unlock()
	s.cfg.Logger.Info().Str("upstream", address).Msg("reading slots")
}

// sourceHint says what to do about an error of the slot source, by SQLSTATE.
func sourceHint(err error) string {
	var pe *pgconn.PgError
	var ce *pgconn.ConnectError
	switch {
	case contain.Is(err):
		return contain.Hint
	case errors.As(err, &pe):
		switch pe.Code {
		case "28P01":
			return "Check the password: .pgpass, PGPASSWORD or the conninfo of --slots."
		case "28000":
			return "pg_hba.conf of the upstream needs a line for this role, an ordinary database and this host."
		case "3D000":
			return "Name an existing database in the conninfo: dbname=postgres."
		case "42501":
			return "The role needs to be able to log in and to read pg_replication_slots."
		case "53300":
			return "The upstream has no connection slot left: raise max_connections or its reserves."
		case codeCannotConnectNow:
			return "The upstream does not accept connections yet."
		}
		return "See the upstream's log."
	case errors.As(err, &ce):
		return "Check that the upstream server is running and accepts connections from this host."
	default:
		return "The connection is made again by itself. If it is not, check that the upstream server is running and accepts connections from this host."
	}
}
