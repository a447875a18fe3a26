package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/protocol"
)

func (t *tap) accept() {
	for {
		down, err := t.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", t.to)
		if err != nil {
			_ = down.Close()
			continue
		}
		t.mu.Lock()
		t.conns = append(t.conns, down, up)
		t.mu.Unlock()
		t.wg.Go(func() { _, _ = io.Copy(down, up); _ = down.Close() })
		t.wg.Go(func() { t.read(down, up); _ = up.Close() })
	}
}

// read forwards what the standby says, frame by frame.
func (t *tap) read(down, up net.Conn) {
	head := 4 // the startup packet has no type
	var m protocol.StandbyStatusUpdate
	for {
		frame := make([]byte, head, 64)
		if _, err := io.ReadFull(down, frame); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint32(frame[head-4:])) - 4
		frame = append(frame, make([]byte, length)...)
		if _, err := io.ReadFull(down, frame[head:]); err != nil {
			return
		}
		if head == protocol.FrameHeaderLen && frame[0] == protocol.FrameCopyData && frame[head] == protocol.MsgStandbyStatusUpdate &&
			m.Decode(frame[head+1:]) == nil {
			t.flushed.note(m.Flush, time.Now())
		}
		head = protocol.FrameHeaderLen
		if _, err := up.Write(frame); err != nil {
			return
		}
	}
}

// startSubscriber starts a stream of pgoutput.
func startSubscriber(ctx context.Context, conninfo, slot string) (*pgconn.PgConn, error) {
	conn, err := pgconn.Connect(ctx, conninfo)
	if err != nil {
		return nil, err
	}
	err = pglogrepl.StartReplication(ctx, conn, slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names 'p'"},
	})
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("stream slot %s: %w", slot, err)
	}
	return conn, nil
}

// subscribe notes when each commit comes, until ctx ends or the stream does.
func subscribe(ctx context.Context, conn *pgconn.PgConn, into *arrivals) {
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return
		}
		data, ok := message.(*pgproto3.CopyData)
		if !ok || len(data.Data) == 0 {
			continue
		}
		var x protocol.XLogData
		var k protocol.PrimaryKeepalive
		switch {
		case data.Data[0] == protocol.MsgXLogData && x.Decode(data.Data[1:]) == nil:
			if len(x.Data) > 0 && x.Data[0] == protocol.LogicalCommit {
				into.note(x.DataStart, time.Now())
			}
		case data.Data[0] == protocol.MsgPrimaryKeepalive && k.Decode(data.Data[1:]) == nil && k.ReplyRequested:
			m := protocol.StandbyStatusUpdate{Write: k.WALEnd, Flush: k.WALEnd, Apply: k.WALEnd}
			conn.Frontend().Send(&pgproto3.CopyData{Data: m.Append(nil)})
			if conn.Frontend().Flush() != nil {
				return
			}
		}
	}
}
