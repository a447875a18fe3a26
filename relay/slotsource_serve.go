package relay

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
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
	looks     []string      // names of the prepared statements of a look
	pause     time.Duration // until the next look
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

	next := time.NewTimer(0)
	defer next.Stop()
	for {
		if err := r.poll(ctx); err != nil {
			return served, err
		}
		next.Reset(r.pause)
		if !served {
			served = true
			s.connected(conn.Conn().RemoteAddr().String())
		}
		if err := r.rest(ctx, next.C); err != nil {
			return served, err
		}
	}
}

// rest returns when the next look is due, and makes snapshots. Whoever asks for
// those brings no look nearer: anybody who may read WAL through the relay can ask.
func (r *reading) rest(ctx context.Context, due <-chan time.Time) error {
	for {
		over := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.s.snapshot:
			r.wanted = true
		case <-due:
			over = true
		}
		if err := r.makeSnapshot(ctx); err != nil || over {
			return err
		}
	}
}

func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// prepare sets the session up and prepares the statements of a look: planning them
// anew each time is two thirds of what a look costs the upstream. The epoch is drawn anew
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
	for i, query := range captureQueries(have, r.s.cfg.Walsenders) {
		name := fmt.Sprintf("slotferry_look_%d", i)
		if _, err := r.conn.Prepare(ctx, name, query, nil); err != nil {
			return fmt.Errorf("prepare to read slots: %w", err)
		}
		r.looks = append(r.looks, name)
	}
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

// look runs the statements of a look in one round trip, and returns the rows of each.
func (r *reading) look(ctx context.Context) (all [][][][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.s.cfg.QueryTimeout)
	defer cancel()
	p := r.conn.StartPipeline(ctx)
	defer func() { err = errors.Join(err, p.Close()) }()
	for _, name := range r.looks {
		p.SendQueryPrepared(name, nil, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return nil, err
	}
	for range r.looks {
		results, err := p.GetResults()
		if err != nil {
			return nil, err
		}
		reader, ok := results.(*pgconn.ResultReader)
		if !ok {
			return nil, fmt.Errorf("the server answers a statement with %T", results)
		}
		res := reader.Read()
		if res.Err != nil {
			return nil, res.Err
		}
		all = append(all, res.Rows)
	}
	return all, nil
}

// poll looks at the catalog and publishes what there is to say.
func (r *reading) poll(ctx context.Context) error {
	began := time.Now()
	results, err := r.look(ctx)
	if err != nil {
		return fmt.Errorf("read slots: %w", err)
	}
	r.pause = r.s.cfg.pause(time.Since(began))
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
	if r.last != nil && !r.s.cfg.due(newsOf(r.last, m), time.Since(r.sent), r.pause) {
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
