package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/protocol"
)

// tap stands on one side of a relay, and notes when what the relay waits for goes
// on to it.
type tap struct {
	listener net.Listener
	to       string
	flushed  *arrivals            // what a standby says that it has flushed; nil: is not noted
	sent     map[string]*arrivals // by slot: commits; nil: are not noted
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// listenTap has t, which knows what to note, stand in front of an address.
func listenTap(to string, t *tap) (_ *tap, err error) {
	t.to = to
	if t.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	t.wg.Go(t.accept)
	return t, nil
}

func (t *tap) port() int { return t.listener.Addr().(*net.TCPAddr).Port }

func (t *tap) close() {
	_ = t.listener.Close()
	t.mu.Lock()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}

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
		var slot atomic.Pointer[arrivals] // whose commits these are
		t.wg.Go(func() {
			forward(down, up, protocol.FrameHeaderLen, func(frame []byte) { t.downstream(frame, slot.Load()) })
			_ = down.Close()
		})
		t.wg.Go(func() { // the startup packet has no type
			forward(up, down, 4, func(frame []byte) { t.upstream(frame, &slot) })
			_ = up.Close()
		})
	}
}

// forward forwards frame by frame until one side ends, and shows each first. The
// first one may have a shorter head.
func forward(to io.Writer, from io.Reader, head int, show func(frame []byte)) {
	for {
		frame := make([]byte, head, 256)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint32(frame[head-4:])) - 4
		frame = append(frame, make([]byte, length)...)
		if _, err := io.ReadFull(from, frame[head:]); err != nil {
			return
		}
		if head == protocol.FrameHeaderLen {
			show(frame)
		}
		head = protocol.FrameHeaderLen
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// streamedSlot finds the slot in a query that begins a logical stream.
var streamedSlot = regexp.MustCompile(`^START_REPLICATION SLOT "?(\w+)"? LOGICAL`)

func (t *tap) upstream(frame []byte, slot *atomic.Pointer[arrivals]) {
	body := frame[protocol.FrameHeaderLen:]
	var m protocol.StandbyStatusUpdate
	switch {
	case frame[0] == protocol.FrameQuery && t.sent != nil:
		if found := streamedSlot.FindSubmatch(body); found != nil {
			slot.Store(t.sent[string(found[1])])
		}
	case frame[0] == protocol.FrameCopyData && t.flushed != nil && len(body) > 0 && body[0] == protocol.MsgStandbyStatusUpdate &&
		m.Decode(body[1:]) == nil:
		t.flushed.note(m.Flush, time.Now())
	}
}

func (t *tap) downstream(frame []byte, slot *arrivals) {
	if slot == nil || frame[0] != protocol.FrameCopyData {
		return
	}
	if end, ok := commitEnd(frame[protocol.FrameHeaderLen:]); ok {
		slot.note(end, time.Now())
	}
}

// commitEnd returns the position of a message that ends a transaction.
func commitEnd(data []byte) (end protocol.LSN, ok bool) {
	var x protocol.XLogData
	if len(data) == 0 || data[0] != protocol.MsgXLogData || x.Decode(data[1:]) != nil {
		return 0, false
	}
	return x.DataStart, len(x.Data) > 0 && x.Data[0] == protocol.LogicalCommit
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
		if end, ok := commitEnd(data.Data); ok {
			into.note(end, time.Now())
			continue
		}
		var k protocol.PrimaryKeepalive
		if data.Data[0] == protocol.MsgPrimaryKeepalive && k.Decode(data.Data[1:]) == nil && k.ReplyRequested {
			m := protocol.StandbyStatusUpdate{Write: k.WALEnd, Flush: k.WALEnd, Apply: k.WALEnd}
			conn.Frontend().Send(&pgproto3.CopyData{Data: m.Append(nil)})
			if conn.Frontend().Flush() != nil {
				return
			}
		}
	}
}
