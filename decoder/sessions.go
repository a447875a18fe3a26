package decoder

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/contain"
)

// applicationName is what the helper's sessions are called on the standby.
const applicationName = "slotferry helper"

// sessions opens connections to the standby, and keeps idle ones by database.
// A slot is always worked on in a session of its own database: PostgreSQL 17 and
// newer would advance it from another, and a DROP DATABASE replayed meanwhile
// then shuts the standby down.
type sessions struct {
	config *pgx.ConnConfig
	max    int

	mu   sync.Mutex // idle is shared by the goroutines of all steps
	idle map[string][]*pgx.Conn
	kept int
}

func newSessions(standby string, max int) (*sessions, error) {
	config, err := pgx.ParseConfig(standby)
	if err != nil {
		return nil, fmt.Errorf("parse the standby's conninfo: %w", err)
	}
	conninfo.SetDefaults(&config.Config, applicationName)
	return &sessions{config: config, max: max, idle: map[string][]*pgx.Conn{}}, nil
}

// connect opens a session in a database; "" means that of the conninfo.
func (s *sessions) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config := s.config.Copy()
	if database != "" {
		config.Database = database
	}
	return pgx.ConnectConfig(ctx, config)
}

// connectReplication opens a session that speaks replication commands and, by
// the simple protocol, SQL. "" is the database of the conninfo.
func (s *sessions) connectReplication(ctx context.Context, database string) (*pgconn.PgConn, error) {
	config := s.config.Config.Copy()
	if database != "" {
		config.Database = database
	}
	config.RuntimeParams["replication"] = "database"
	return pgconn.ConnectConfig(ctx, config)
}

// with runs fn in a session of the database. A session in which fn failed, or ended
// by a panic, is closed, so no error leaks into the next step.
func (s *sessions) with(ctx context.Context, database string, fn func(*pgx.Conn) error) error {
	conn := s.take(ctx, database)
	if conn == nil {
		var err error
		if conn, err = s.connect(ctx, database); err != nil {
			return fmt.Errorf("connect to database %q: %w", database, err)
		}
	}
	if err := contain.Do(func() error { return fn(conn) }); err != nil {
		closeSession(conn)
		return err
	}
	s.put(database, conn)
	return nil
}

// take returns an idle session of the database that still lives, or nil.
func (s *sessions) take(ctx context.Context, database string) *pgx.Conn {
	for {
		conn := s.pop(database)
		if conn == nil || conn.Ping(ctx) == nil {
			return conn
		}
		closeSession(conn)
	}
}

func (s *sessions) pop(database string) *pgx.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.idle[database]
	if len(list) == 0 {
		delete(s.idle, database)
		return nil
	}
	s.kept--
	s.idle[database] = list[:len(list)-1]
	return list[len(list)-1]
}

// put keeps a session for the next step of its database, and ends others when
// there are too many.
func (s *sessions) put(database string, conn *pgx.Conn) {
	for _, old := range s.keep(database, conn) {
		closeSession(old)
	}
}

// keep returns the sessions that had to make room.
func (s *sessions) keep(database string, conn *pgx.Conn) (evicted []*pgx.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, list := range s.idle {
		if s.kept < s.max {
			break
		}
		evicted = append(evicted, list...)
		s.kept -= len(list)
		delete(s.idle, name)
	}
	s.idle[database] = append(s.idle[database], conn)
	s.kept++
	return evicted
}

// close ends all idle sessions. Sessions of steps end with their contexts.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.idle {
		for _, conn := range list {
			closeSession(conn)
		}
	}
	s.idle, s.kept = map[string][]*pgx.Conn{}, 0
}

// closeSession says goodbye, and waits no longer than closeTimeout for that.
func closeSession(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the session is given up either way
}
