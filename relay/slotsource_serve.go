package relay

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/protocol"
)

// reading is one connection of a SlotSource, from connect to loss. Its
// goroutine owns all of it.
type reading struct {
	s         *SlotSource
	conn      *pgconn.PgConn
	query     string
	epoch     uint64
	sequence  uint64
	last      *protocol.SlotMessage // the last one sent
	sent      time.Time
	snapshot  time.Time // when the last one was asked for
	wanted    bool      // a snapshot is to be made when the interval has passed
	readiness *readinessReader
}

// serve reads over one connection until that is lost or ctx ends. served says
// that the slots could be read at least once.
func (s *SlotSource) serve(ctx context.Context) (served bool, err error) {
	conn, err := pgconn.ConnectConfig(ctx, s.conn)
	if err != nil {
		return false, fmt.Errorf("connect to read slots: %w", err)
	}
	defer closeConn(conn)
	r := &reading{s: s, conn: conn}
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.readiness = newReadinessReader(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.readiness.run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()

	poll := time.NewTicker(s.cfg.PollInterval)
	defer poll.Stop()
	for {
		if err := r.poll(ctx); err != nil {
			return served, err
		}
		if !served {
			served = true
			s.connected(conn.Conn().RemoteAddr().String())
		}
		select {
		case <-ctx.Done():
			return served, ctx.Err()
		case <-s.snapshot:
			r.wanted = true
		case <-poll.C:
		}
		if err := r.makeSnapshot(ctx); err != nil {
			return served, err
		}
	}
}

func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// prepare sets the session up and builds the query. The epoch is drawn anew
// for every connection: two readings never share their numbers.
func (r *reading) prepare(ctx context.Context) error {
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return fmt.Errorf("draw an epoch: %w", err)
	}
	r.epoch = binary.BigEndian.Uint64(seed[:]) | 1 // never 0
	if _, err := r.exec(ctx, fmt.Sprintf(settingsQuery, r.s.cfg.QueryTimeout.Milliseconds())); err != nil {
		return fmt.Errorf("set up the session that reads slots: %w", err)
	}
	columns, err := r.exec(ctx, columnsQuery)
	if err != nil {
		return fmt.Errorf("read the columns of pg_replication_slots: %w", err)
	}
	have := map[string]bool{}
	for _, row := range columns[0] {
		have[string(row[0])] = true
	}
	r.query = captureQuery(have, r.s.cfg.Walsenders)
	return nil
}

// exec runs statements in one round trip by the simple protocol and returns
// the rows of each. The server's statement_timeout ends a slow one; a server
// that does not even do that loses its connection.
func (r *reading) exec(ctx context.Context, sql string) ([][][][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.s.cfg.QueryTimeout)
	defer cancel()
	results, err := r.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	all := make([][][][]byte, len(results))
	for i, res := range results {
		if res.Err != nil {
			return nil, res.Err
		}
		all[i] = res.Rows
	}
	return all, nil
}

// poll looks at the catalog and publishes what there is to say.
func (r *reading) poll(ctx context.Context) error {
	results, err := r.exec(ctx, r.query)
	if err != nil {
		return fmt.Errorf("read slots: %w", err)
	}
	m, err := captured(results[:min(captureResults, len(results))], r.s.filter.Load())
	if err != nil {
		return err
	}
	if r.s.cfg.Walsenders {
		w, err := readWalsenders(results[captureResults:], m.InRecovery)
		if err != nil {
			return err
		}
		r.s.tellWatchers(func(watcher walsenderWatcher) { watcher.walsendersRead(w) })
	}
	r.s.counts.polls.Add(1)
	r.readiness.apply(m)
	m.Interval = r.s.cfg.Heartbeat.Microseconds()
	if r.last != nil && sameState(r.last, m) && time.Since(r.sent) < r.s.cfg.Heartbeat-r.s.cfg.PollInterval/2 {
		return nil
	}
	r.sequence++
	m.Epoch, m.Sequence = r.epoch, r.sequence
	parts, err := m.Parts(0)
	if err != nil {
		return fmt.Errorf("encode the slot message: %w", err)
	}
	r.last, r.sent = m, time.Now()
	r.s.publish(&publication{message: m, parts: parts})
	return nil
}

// sameState reports whether two messages say the same but for what moves all
// the time: position and clock, open transactions, and how far each standby
// has flushed.
func sameState(a, b *protocol.SlotMessage) bool {
	return a.SystemIdentifier == b.SystemIdentifier && a.TimelineID == b.TimelineID &&
		a.PostmasterStartTime == b.PostmasterStartTime && a.ServerVersionNum == b.ServerVersionNum &&
		a.InRecovery == b.InRecovery && slices.Equal(a.Slots, b.Slots) &&
		slices.EqualFunc(a.PhysicalSlots, b.PhysicalSlots, func(p, q protocol.PhysicalSlot) bool {
			p.RestartLSN, q.RestartLSN = 0, 0
			return p == q
		}) && slices.Equal(a.PreparedTransactions, b.PreparedTransactions)
}

// makeSnapshot runs pg_log_standby_snapshot() when it was asked for and may be
// run again. Only a lost connection is an error.
func (r *reading) makeSnapshot(ctx context.Context) error {
	if !r.wanted || time.Since(r.snapshot) < r.s.cfg.SnapshotInterval {
		return nil
	}
	r.wanted, r.snapshot = false, time.Now()
	if r.last.InRecovery {
		return nil // its own upstream's relay is asked by its own helper
	}
	_, err := r.exec(ctx, "SELECT pg_catalog.pg_log_standby_snapshot()")
	var pe *pgconn.PgError
	if err != nil && (!errors.As(err, &pe) || r.conn.IsClosed()) {
		return fmt.Errorf("log a standby snapshot: %w", err)
	}
	r.s.snapshotDone(pe)
	return nil
}

// snapshotDone notes how pg_log_standby_snapshot() ended, and logs it when
// that is another way than before.
func (s *SlotSource) snapshotDone(pe *pgconn.PgError) {
	var text, hint string
	if pe == nil {
		s.counts.snapshots.Add(1)
	} else {
		text = strings.TrimSpace(pe.Error())
		switch pe.Code {
		case "42501":
			hint = "GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO " + quoteIdent(s.conn.User) + ";"
		case "42883":
			hint = "pg_log_standby_snapshot() exists since PostgreSQL 16."
		}
	}
	s.mu.Lock()
	changed := s.status.SnapshotError != text
	s.status.SnapshotError, s.status.SnapshotHint = text, hint
	s.mu.Unlock()
	switch {
	case !changed:
	case pe != nil:
		s.cfg.Logger.Error().Err(pe).Str("hint", hint).
			Msg("standby snapshots cannot be logged: slots on the standby will take longer to be made")
	default:
		s.cfg.Logger.Info().Msg("standby snapshots can be logged again")
	}
}

func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
