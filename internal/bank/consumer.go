package bank

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/logicalstream"
	"github.com/slotferry/slotferry/protocol"
)

// confirmEvery is how often a consumer tells the walsender how far it has come.
const confirmEvery = 100 * time.Millisecond

// Consumer streams from a test_decoding slot and remembers what came. It asks for
// the slot's own position whenever it connects, so it gets each change at least
// once.
type Consumer struct {
	database, slot string

	mu  sync.Mutex
	got Delivered
	at  protocol.LSN // all before is in got
	err error        // why the last connection ended

	// Owned by stream.
	tx      int64 // number of the transaction under way, 0: not known yet
	changes []Change
}

// NewConsumer makes a consumer of a slot that is in a database. It connects
// nowhere yet.
func NewConsumer(database, slot string) *Consumer {
	return &Consumer{database: database, slot: slot, got: Delivered{}}
}

// Slot returns the name of the slot.
func (c *Consumer) Slot() string { return c.slot }

// Got returns what has come. It must not be called while Consume runs.
func (c *Consumer) Got() Delivered { return c.got }

// Position returns how far the consumer has come on the server it is connected to.
func (c *Consumer) Position() protocol.LSN {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Failed returns why the connection ended, nil while it lives.
func (c *Consumer) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Walsender is where a consumer can connect: a *cluster.Server, or what stands in
// front of one.
type Walsender interface {
	ConnectReplication(ctx context.Context, dbname string) (*pgconn.PgConn, error)
}

// Consume streams until ctx ends, or the connection does: Failed then says why.
func (c *Consumer) Consume(ctx context.Context, s Walsender) {
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
func (c *Consumer) stream(ctx context.Context, s Walsender) error {
	conn, err := s.ConnectReplication(ctx, c.database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := logicalstream.Start(ctx, conn, c.slot, protocol.InvalidLSN, `"include-xids" '0', "skip-empty-xacts" '1'`); err != nil {
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

// confirm tells the walsender that everything so far has been kept.
func (c *Consumer) confirm(conn *pgconn.PgConn) error {
	at := c.Position()
	if at == protocol.InvalidLSN {
		return nil // nothing has come yet
	}
	return logicalstream.Confirm(conn, at, false)
}

func (c *Consumer) take(msg pgproto3.BackendMessage) error {
	x, k, err := logicalstream.Read(msg)
	switch {
	case err != nil:
		return err
	case k != nil:
		c.reached(k.WALEnd) // whatever was before it has come before
	case x != nil:
		return c.takeLine(string(x.Data), x.DataStart)
	}
	return nil
}

// takeLine takes a line of test_decoding. A transaction counts when it is whole.
func (c *Consumer) takeLine(line string, at protocol.LSN) error {
	switch line {
	case "BEGIN":
		c.tx, c.changes = 0, nil
		return nil
	case "COMMIT":
		if c.tx != 0 {
			c.mu.Lock()
			c.got.Add(c.tx, c.changes)
			c.mu.Unlock()
		}
		c.reached(at)
		return nil
	}
	one, err := parseDecoded(line)
	if err != nil {
		return err
	}
	if one.Table == journalTable {
		c.tx = one.ID
	}
	c.changes = append(c.changes, one)
	return nil
}

func (c *Consumer) reached(at protocol.LSN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = max(c.at, at)
}
