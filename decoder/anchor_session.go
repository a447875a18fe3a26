package decoder

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/protocol"
)

// anchorPrefix is the reserved name of anchors. 16 hex digits follow, so that a
// new anchor never waits for the session of a dead one to be noticed.
const anchorPrefix = "slotferry_anchor_"

// anchorConnectTimeout bounds the connect. How long the creation may wait then is
// decided look by look.
const anchorConnectTimeout = 10 * time.Second

// anchorSession holds the anchor: a TEMPORARY slot lives as long as its session,
// and one error drops it. So this session does nothing but create and advance it.
// Its methods are called one at a time.
type anchorSession struct {
	conn *pgconn.PgConn
	name string
}

// createAnchor makes the anchor by the replication protocol. Unlike the SQL
// function this holds no snapshot while it waits for a running-xacts record, so
// it cannot stop replay; and it notices at once when its client is gone.
func createAnchor(ctx context.Context, s *sessions, name string) (*anchorSession, protocol.LSN, error) {
	connectCtx, cancel := context.WithTimeout(ctx, anchorConnectTimeout)
	conn, err := s.connectReplication(connectCtx, "")
	cancel()
	if err != nil {
		return nil, 0, fmt.Errorf("connect for the anchor: %w", err)
	}
	a := &anchorSession{conn: conn, name: name}
	made := false
	defer func() {
		if !made { // an error, or a panic
			a.close()
		}
	}()
	rows, err := a.query(ctx, fmt.Sprintf("CREATE_REPLICATION_SLOT %q TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT", name))
	if err == nil && (len(rows) != 1 || len(rows[0]) < 2) {
		err = fmt.Errorf("unexpected result %q", rows)
	}
	var position protocol.LSN
	if err == nil {
		position, err = protocol.ParseLSN(string(rows[0][1]))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("create anchor: %w", err)
	}
	made = true
	return a, position, nil
}

// advance moves the anchor in its own session, in recovery and on the timeline
// only. On any error the server has dropped the anchor.
func (a *anchorSession) advance(ctx context.Context, target protocol.LSN, timeline uint32, patience time.Duration) (protocol.LSN, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := a.query(ctx, gateQuery)
	if err != nil {
		return 0, fmt.Errorf("read replay position: %w", err)
	}
	if len(rows) != 1 || len(rows[0]) != 3 {
		return 0, fmt.Errorf("read replay position: unexpected result %q", rows)
	}
	replay, err := protocol.ParseLSN(string(rows[0][1]))
	if err != nil {
		return 0, err
	}
	if string(rows[0][0]) != "t" || string(rows[0][2]) != fmt.Sprint(timeline) || replay < target {
		return 0, errNotNow
	}
	rows, err = a.query(ctx, fmt.Sprintf("SELECT end_lsn FROM pg_catalog.pg_replication_slot_advance('%s', '%v')", a.name, target))
	if err != nil {
		return 0, fmt.Errorf("advance anchor to %v: %w", target, tooSlow(ctx, err))
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, fmt.Errorf("advance anchor to %v: unexpected result %q", target, rows)
	}
	return protocol.ParseLSN(string(rows[0][0]))
}

// query runs one command by the simple protocol: a walsender refuses the other.
func (a *anchorSession) query(ctx context.Context, command string) ([][][]byte, error) {
	return simpleQuery(ctx, a.conn, command)
}

func simpleQuery(ctx context.Context, conn *pgconn.PgConn, command string) ([][][]byte, error) {
	results, err := conn.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, nil
	}
	last := results[len(results)-1]
	return last.Rows, last.Err
}

// close ends the session, and with it the anchor.
func (a *anchorSession) close() { closePgConn(a.conn) }
