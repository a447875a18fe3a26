// Package logicalstream is the subscriber's side of a logical replication
// connection, as far as tests and tools need it.
package logicalstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/protocol"
)

// Start begins to stream from a slot. from 0/0 is where the slot is; a position
// before that counts as it. Options are the plugin's, as START_REPLICATION has them
// within its parentheses.
func Start(ctx context.Context, conn *pgconn.PgConn, slot string, from protocol.LSN, options string) error {
	conn.Frontend().SendQuery(&pgproto3.Query{
		String: fmt.Sprintf(`START_REPLICATION SLOT "%s" LOGICAL %v (%s)`, slot, from, options)})
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

// Read returns what a message of a stream brings: one of the two, or neither where
// it concerns nobody. Data aliases the message. The end of the stream is an error.
func Read(msg pgproto3.BackendMessage) (*protocol.XLogData, *protocol.PrimaryKeepalive, error) {
	var data []byte
	switch msg := msg.(type) {
	case *pgproto3.ErrorResponse:
		return nil, nil, pgconn.ErrorResponseToPgError(msg)
	case *pgproto3.CopyDone:
		return nil, nil, errors.New("the server ended the stream")
	case *pgproto3.CopyData:
		data = msg.Data
	default:
		return nil, nil, nil
	}
	if len(data) == 0 {
		return nil, nil, errors.New("empty CopyData")
	}
	switch data[0] {
	case protocol.MsgPrimaryKeepalive:
		k := new(protocol.PrimaryKeepalive)
		return nil, k, k.Decode(data[1:])
	case protocol.MsgXLogData:
		x := new(protocol.XLogData)
		return x, nil, x.Decode(data[1:])
	}
	return nil, nil, fmt.Errorf("message of unknown type %q", data[0])
}

// Confirm tells the server that all before a position is kept. reply asks for a
// keepalive, which says how far the server has come.
func Confirm(conn *pgconn.PgConn, at protocol.LSN, reply bool) error {
	update := protocol.StandbyStatusUpdate{
		Write: at, Flush: at, Apply: at, SendTime: protocol.Micros(time.Now()), ReplyRequested: reply,
	}
	conn.Frontend().Send(&pgproto3.CopyData{Data: update.Append(nil)})
	return conn.Frontend().Flush()
}
