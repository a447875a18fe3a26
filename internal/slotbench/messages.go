package main

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

// confirmations are what subscribers have confirmed, and how long it took until a
// slot message said so.
type confirmations struct {
	mu      sync.Mutex
	waiting map[string][]confirmation // nil: nobody listens
	took    []float64                 // milliseconds
}

type confirmation struct {
	at   protocol.LSN
	when time.Time
}

// note is called before a subscriber sends its confirmation.
func (c *confirmations) note(slot string, at protocol.LSN, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != nil {
		c.waiting[slot] = append(c.waiting[slot], confirmation{at, now})
	}
}

// heard takes a slot message in.
func (c *confirmations) heard(m *protocol.SlotMessage, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range m.Slots {
		u := &m.Slots[i]
		list := c.waiting[u.Name]
		for len(list) > 0 && list[0].at <= u.ConfirmedFlushLSN {
			c.took = append(c.took, milliseconds(now.Sub(list[0].when)))
			list = list[1:]
		}
		c.waiting[u.Name] = list
	}
}

func (c *confirmations) delays() []float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took
}

// listen hears the relay's slot messages as a sidecar does, until ctx ends; how that
// went comes over ended.
func (b *bench) listen(ctx context.Context, ended chan<- error) error {
	config, err := pgconn.ParseConfig(b.pair.RelayConninfo(b.pair.B) + " sslmode=disable")
	if err != nil {
		return err
	}
	config.RuntimeParams["replication"] = "true"
	config.RuntimeParams[protocol.OptInParameter] = protocol.OptInValue
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("listen to slot messages: %w", err)
	}
	b.confirmed.mu.Lock()
	b.confirmed.waiting = map[string][]confirmation{}
	b.confirmed.mu.Unlock()
	go func() {
		defer conn.Close(context.WithoutCancel(ctx))
		err := b.hear(ctx, conn)
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
	return nil
}

func (b *bench) hear(ctx context.Context, conn *pgconn.PgConn) error {
	conn.Frontend().SendQuery(&pgproto3.Query{String: "SLOT_STATE"})
	if err := conn.Frontend().Flush(); err != nil {
		return err
	}
	var parts protocol.Assembler
	for {
		msg, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return fmt.Errorf("listen to slot messages: %w", err)
		}
		x, _, err := logicalstream.Read(msg)
		if err != nil {
			return fmt.Errorf("listen to slot messages: %w", err)
		}
		if x == nil {
			continue // a keepalive
		}
		m, err := parts.Add(x.Data)
		if err != nil {
			return fmt.Errorf("listen to slot messages: %w", err)
		}
		if m != nil {
			b.confirmed.heard(m, time.Now())
		}
	}
}
