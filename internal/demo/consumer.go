package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/protocol"
)

// confirmEvery is how often a consumer tells the walsender how far it has come.
const confirmEvery = 100 * time.Millisecond

// consumer streams from a test_decoding slot and remembers what came. It asks for
// the slot's own position whenever it connects, so it gets each change at least
// once.
type consumer struct {
	slot string

	mu  sync.Mutex
	got delivered
	at  protocol.LSN // all before is in got
	err error        // why the last connection ended

	// Owned by stream.
	tx      int64 // number of the transaction under way, 0: not known yet
	changes []change
}

func newConsumer(slot string) *consumer { return &consumer{slot: slot, got: delivered{}} }

// position returns how far the consumer has come.
func (c *consumer) position() protocol.LSN {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// failed returns why the connection ended, nil while it lives.
func (c *consumer) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// consume is stream, with its error kept for failed.
func (c *consumer) consume(ctx context.Context, s *cluster.Server) {
	c.mu.Lock()
	c.err = nil
	c.at = protocol.InvalidLSN // a position of another server means nothing here
	c.mu.Unlock()
	err := c.stream(ctx, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// stream consumes until ctx ends, which is no error, or the connection does.
func (c *consumer) stream(ctx context.Context, s *cluster.Server) error {
	conn, err := s.ConnectReplication(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := startReplication(ctx, conn, c.slot); err != nil {
		return fmt.Errorf("consume slot %q: %w", c.slot, err)
	}
	confirm := time.Now()
	for {
		if !time.Now().Before(confirm) {
			if err := c.confirm(conn); err != nil {
				return fmt.Errorf("consume slot %q: %w", c.slot, err)
			}
			confirm = time.Now().Add(confirmEvery)
		}
		until, cancel := context.WithDeadline(ctx, confirm)
		msg, err := conn.ReceiveMessage(until)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && pgconn.Timeout(err):
			continue
		case err == nil:
			err = c.take(msg)
		}
		if err != nil {
			return fmt.Errorf("consume slot %q: %w", c.slot, err)
		}
	}
}

func startReplication(ctx context.Context, conn *pgconn.PgConn, slot string) error {
	conn.Frontend().SendQuery(&pgproto3.Query{String: fmt.Sprintf(
		`START_REPLICATION SLOT "%s" LOGICAL 0/0 ("include-xids" '0', "skip-empty-xacts" '1')`, slot)})
	if err := conn.Frontend().Flush(); err != nil {
		return err
	}
	for {
		msg, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch msg := msg.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(msg)
		}
	}
}

// confirm tells the walsender that everything so far has been kept.
func (c *consumer) confirm(conn *pgconn.PgConn) error {
	at := c.position()
	if at == protocol.InvalidLSN {
		return nil // nothing has come yet
	}
	update := protocol.StandbyStatusUpdate{Write: at, Flush: at, Apply: at, SendTime: protocol.Micros(time.Now())}
	conn.Frontend().Send(&pgproto3.CopyData{Data: update.Append(nil)})
	return conn.Frontend().Flush()
}

func (c *consumer) take(msg pgproto3.BackendMessage) error {
	switch msg := msg.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(msg)
	case *pgproto3.CopyDone:
		return errors.New("the server ended the stream")
	case *pgproto3.CopyData:
		return c.takeData(msg.Data)
	}
	return nil
}

func (c *consumer) takeData(data []byte) error {
	if len(data) == 0 {
		return errors.New("empty CopyData")
	}
	switch data[0] {
	case protocol.MsgPrimaryKeepalive:
		var k protocol.PrimaryKeepalive
		if err := k.Decode(data[1:]); err != nil {
			return err
		}
		c.reached(k.WALEnd) // whatever was before it has come before
		return nil
	case protocol.MsgXLogData:
		var x protocol.XLogData
		if err := x.Decode(data[1:]); err != nil {
			return err
		}
		return c.takeLine(string(x.Data), x.DataStart)
	}
	return fmt.Errorf("message of unknown type %q", data[0])
}

// takeLine takes a line of test_decoding. A transaction counts when it is whole.
func (c *consumer) takeLine(line string, at protocol.LSN) error {
	switch line {
	case "BEGIN":
		c.tx, c.changes = 0, nil
		return nil
	case "COMMIT":
		if c.tx != 0 {
			c.mu.Lock()
			c.got.add(c.tx, c.changes)
			c.mu.Unlock()
		}
		c.reached(at)
		return nil
	}
	one, err := parseDecoded(line)
	if err != nil {
		return err
	}
	if one.table == "journal" {
		c.tx = one.id
	}
	c.changes = append(c.changes, one)
	return nil
}

func (c *consumer) reached(at protocol.LSN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = max(c.at, at)
}
