// Package livetrace runs a replication command on a server or a relay and gives
// every message of it to package trace. It confirms nothing, so that the server
// moves no slot, and makes nothing on the server unless it is told to.
package livetrace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// Mode says what is streamed.
type Mode uint8

// The modes.
const (
	Physical Mode = iota
	Logical
	SlotState // a relay's sidecar channel
)

// statusInterval is how often the server is told that somebody listens. It must
// be below wal_sender_timeout, 60 s by default.
const statusInterval = 10 * time.Second

// ErrUnreachable says that there is no server at the address.
var ErrUnreachable = errors.New("no server reached")

// Config says what to stream.
type Config struct {
	Conninfo string
	Mode     Mode

	// Slot is the slot to stream from; "" is none, or a temporary one.
	Slot string

	// Temporary makes a temporary slot for the stream, which the server drops with
	// the session. A logical stream without Slot needs it.
	Temporary bool

	Plugin  string   // of a temporary logical slot
	Options []string // of the plugin, name=value

	Start protocol.LSN // 0/0: where the server is, or where the slot is
	End   protocol.LSN // stop there; 0/0: never

	Trace trace.Config
	Emit  func(*trace.Message) error
}

// stream is one run.
type stream struct {
	cfg     Config
	conn    net.Conn
	session *trace.Session
	sent    int64 // bytes, for offsets
	got     int64
	buf     [64 << 10]byte

	// What the messages of the command under way say.
	row       []string
	failed    error
	done      bool // ReadyForQuery came
	streaming bool
	ended     bool // the server ended its side of the copy
	reply     bool // the server asked for a status update
	asked     bool // the server was asked how far it is
	position  protocol.LSN
	emitErr   error
}

// Run streams until ctx ends, the end is reached, or the server ends it. Each
// is a clean end.
func Run(ctx context.Context, cfg Config) error {
	config, err := pgconn.ParseConfig(cfg.Conninfo)
	if err != nil {
		return err
	}
	conninfo.LeaveOut(config)
	config.RuntimeParams["replication"] = "true"
	if cfg.Mode == Logical {
		config.RuntimeParams["replication"] = "database"
	}
	if cfg.Mode == SlotState {
		config.RuntimeParams[protocol.OptInParameter] = protocol.OptInValue
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "slotferry debug trace"
	}
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	hijacked, err := pg.Hijack()
	if err != nil {
		return err
	}
	s := &stream{cfg: cfg, conn: hijacked.Conn}
	defer s.conn.Close()
	s.session = trace.NewSession(cfg.Trace, 1, s.message)
	s.session.Resume(&protocol.CaptureResume{Phase: byte(trace.PhaseSession)})
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = s.run(ctx)
	s.session.End()
	if err == nil {
		err = s.emitErr
	}
	return err
}

// run sends the commands one after the other.
func (s *stream) run(ctx context.Context) error {
	start, slot := s.cfg.Start, s.cfg.Slot
	if s.cfg.Mode == SlotState {
		return s.copy(ctx, "SLOT_STATE")
	}
	if err := s.command(ctx, "IDENTIFY_SYSTEM"); err != nil {
		return err
	}
	if start == protocol.InvalidLSN && s.cfg.Mode == Physical && len(s.row) > 2 {
		position, err := protocol.ParseLSN(s.row[2])
		if err != nil {
			return fmt.Errorf("read the answer to IDENTIFY_SYSTEM: %w", err)
		}
		start = position
	}
	if s.cfg.Temporary {
		slot = fmt.Sprintf("slotferry_trace_%d", time.Now().UnixNano())
		command := fmt.Sprintf("CREATE_REPLICATION_SLOT %s TEMPORARY PHYSICAL (RESERVE_WAL)", quoteIdentifier(slot))
		if s.cfg.Mode == Logical {
			command = fmt.Sprintf("CREATE_REPLICATION_SLOT %s TEMPORARY LOGICAL %s (SNAPSHOT 'nothing')",
				quoteIdentifier(slot), quoteIdentifier(s.cfg.Plugin))
		}
		if err := s.command(ctx, command); err != nil {
			return err
		}
	}
	return s.copy(ctx, s.startReplication(slot, start))
}

// startReplication returns the command that begins the stream.
func (s *stream) startReplication(slot string, start protocol.LSN) string {
	var b strings.Builder
	b.WriteString("START_REPLICATION")
	if slot != "" {
		b.WriteString(" SLOT " + quoteIdentifier(slot))
	}
	if s.cfg.Mode == Physical {
		fmt.Fprintf(&b, " PHYSICAL %s", start)
		return b.String()
	}
	fmt.Fprintf(&b, " LOGICAL %s", start)
	for i, o := range s.cfg.Options {
		name, value, _ := strings.Cut(o, "=")
		b.WriteString(map[bool]string{true: " (", false: ", "}[i == 0])
		fmt.Fprintf(&b, "%s '%s'", quoteIdentifier(name), strings.ReplaceAll(value, "'", "''"))
	}
	if len(s.cfg.Options) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

func quoteIdentifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
