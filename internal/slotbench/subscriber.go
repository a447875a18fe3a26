package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/logicalstream"
	"github.com/slotferry/slotferry/protocol"
)

// confirmEvery is how often a subscriber tells the walsender how far it has come.
const confirmEvery = 100 * time.Millisecond

// subscriber streams from a slot with pgoutput, as a subscription does, and
// remembers the rows that came.
type subscriber struct {
	slot string

	mu   sync.Mutex
	rows map[int64]bool
	at   protocol.LSN // all before is in rows

	// Set by start. err is for who has seen ended closed.
	stop  context.CancelFunc
	ended chan struct{}
	err   error // why the primary was left
}

// createSlot makes a failover slot, by the command that CREATE SUBSCRIPTION uses.
func createSlot(ctx context.Context, conn *pgconn.PgConn, slot string) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE_REPLICATION_SLOT "%s" LOGICAL pgoutput (FAILOVER true, SNAPSHOT 'nothing')`, slot)).ReadAll()
	if err != nil {
		return fmt.Errorf("create slot %q: %w", slot, err)
	}
	return nil
}

// start begins to stream from the primary.
func (s *subscriber) start(ctx context.Context, primary *cluster.Server, confirm func(slot string, at protocol.LSN, now time.Time)) error {
	stream, err := subscribe(ctx, primary, s.slot, protocol.InvalidLSN, s.took)
	if err != nil {
		return err
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = stream.run(ctx, protocol.InvalidLSN, func(at protocol.LSN) { confirm(s.slot, at, time.Now()) })
	}()
	return nil
}

// position returns how far the subscriber has come.
func (s *subscriber) position() protocol.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// took notes rows and that everything before a position is there.
func (s *subscriber) took(rows []int64, at protocol.LSN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range rows {
		s.rows[id] = true
	}
	s.at = max(s.at, at)
}

// subscription is one connection of a subscriber.
type subscription struct {
	conn *pgconn.PgConn
	took func(rows []int64, at protocol.LSN) // whole transactions only

	rows    []int64 // of the transaction under way
	within  bool    // a transaction is under way
	at      protocol.LSN
	message protocol.LogicalMessage
}

// subscribe begins to stream from a slot, at its own position if from is 0/0.
func subscribe(ctx context.Context, server *cluster.Server, slot string, from protocol.LSN,
	took func(rows []int64, at protocol.LSN)) (s *subscription, err error) {
	conn, err := server.ConnectReplication(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	options := fmt.Sprintf("proto_version '1', publication_names '%s'", publication)
	if err := logicalstream.Start(ctx, conn, slot, from, options); err != nil {
		return nil, fmt.Errorf("subscribe to slot %q: %w", slot, err)
	}
	return &subscription{conn: conn, took: took}, nil
}

// run streams until ctx ends, which is no error, or all before until has come.
// Every confirmEvery confirm, if it is not nil, is called with the new position
// before the server is told.
func (s *subscription) run(ctx context.Context, until protocol.LSN, confirm func(protocol.LSN)) error {
	defer s.conn.Close(context.WithoutCancel(ctx))
	next, told := time.Now().Add(confirmEvery), protocol.InvalidLSN
	for until == protocol.InvalidLSN || s.at < until {
		wait, cancel := context.WithDeadline(ctx, next)
		msg, err := s.conn.ReceiveMessage(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !pgconn.Timeout(err):
			return err
		case err == nil:
			if err := s.take(msg); err != nil {
				return err
			}
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(confirmEvery)
		if confirm != nil && s.at > told {
			told = s.at
			confirm(told)
		}
		// Who keeps nothing learns by the reply that the end is reached.
		if err := logicalstream.Confirm(s.conn, told, told == protocol.InvalidLSN); err != nil {
			return err
		}
	}
	return nil
}

func (s *subscription) take(msg pgproto3.BackendMessage) error {
	x, k, err := logicalstream.Read(msg)
	switch {
	case err != nil:
		return err
	case k != nil && !s.within:
		s.reach(k.WALEnd) // whatever was before it has come before
	case x != nil:
		return s.takeMessage(x.Data)
	}
	return nil
}

// takeMessage takes a message of pgoutput. A transaction counts when it is whole.
func (s *subscription) takeMessage(data []byte) error {
	m := &s.message
	if err := m.Decode(data, false); err != nil {
		return err
	}
	switch m.Type {
	case protocol.LogicalBegin:
		s.within, s.rows = true, s.rows[:0]
	case protocol.LogicalInsert:
		if len(m.New) != 1 {
			return fmt.Errorf("row of %d columns", len(m.New))
		}
		id, err := strconv.ParseInt(string(m.New[0].Value), 10, 64)
		if err != nil {
			return err
		}
		s.rows = append(s.rows, id)
	case protocol.LogicalCommit:
		s.within = false
		s.reach(m.EndLSN)
		s.rows = s.rows[:0]
	}
	return nil
}

func (s *subscription) reach(at protocol.LSN) {
	s.at = max(s.at, at)
	s.took(s.rows, s.at)
}
