package livetrace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// drainTimeout bounds how long the end of a stream may take.
const drainTimeout = 10 * time.Second

// errNoRelay hints at what a server says to SLOT_STATE.
type errNoRelay struct{ error }

func (e errNoRelay) Hint() string {
	return "SLOT_STATE is a relay's command: there is no slotferry relay at this address, or it does not splice."
}

func (e errNoRelay) Unwrap() error { return e.error }

// send sends bytes and traces them.
func (s *stream) send(b []byte) error {
	s.session.Feed(trace.Upstream, protocol.Micros(time.Now()), s.sent, b)
	s.sent += int64(len(b))
	if _, err := s.conn.Write(b); err != nil {
		return fmt.Errorf("write to server: %w", err)
	}
	return nil
}

// query sends a command.
func (s *stream) query(text string) error {
	s.row, s.failed, s.done, s.streaming, s.ended = nil, nil, false, false, false
	frame := []byte{protocol.FrameQuery, 0, 0, 0, 0}
	frame = append(append(frame, text...), 0)
	n := len(frame) - 1
	frame[1], frame[2], frame[3], frame[4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return s.send(frame)
}

// command runs a command to its end.
func (s *stream) command(ctx context.Context, text string) error {
	if err := s.query(text); err != nil {
		return err
	}
	for !s.done {
		if err := s.receive(time.Time{}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	return s.failed
}

// receive reads once and traces what came. A deadline that passes is no error.
func (s *stream) receive(deadline time.Time) error {
	if !deadline.IsZero() {
		if err := s.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	n, err := s.conn.Read(s.buf[:])
	if n > 0 {
		s.session.Feed(trace.Downstream, protocol.Micros(time.Now()), s.got, s.buf[:n])
		s.got += int64(n)
	}
	var timeout net.Error
	switch {
	case s.emitErr != nil:
		return s.emitErr
	case err == io.EOF:
		return errors.Join(errors.New("the server closed the connection"), s.failed)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil
	case err != nil:
		return fmt.Errorf("read from server: %w", err)
	}
	return nil
}

// copy runs a command that opens a stream, to the end of that.
func (s *stream) copy(ctx context.Context, text string) error {
	if err := s.query(text); err != nil {
		return err
	}
	next := time.Now().Add(statusInterval)
	for !s.done && !s.ended {
		if s.streaming && (ctx.Err() != nil || s.cfg.End != protocol.InvalidLSN && s.position >= s.cfg.End) {
			break
		}
		if !s.streaming && ctx.Err() != nil {
			return nil
		}
		due := !time.Now().Before(next)
		if due { // whoever has nothing to say waits as well
			next = time.Now().Add(statusInterval)
		}
		if s.streaming && s.cfg.Mode != SlotState && (s.reply || !s.asked || due) {
			if err := s.status(!s.asked); err != nil {
				return err
			}
			s.reply, s.asked = false, true
		}
		deadline := next
		if ctx.Err() != nil {
			deadline = time.Now()
		}
		if err := s.receive(deadline); err != nil {
			return err
		}
	}
	if s.failed != nil && s.cfg.Mode == SlotState {
		return errNoRelay{s.failed}
	}
	if s.failed != nil || s.done {
		return s.failed
	}
	return s.finish()
}

// status says that somebody is here. Its flush position is 0/0: nothing is
// confirmed (ProcessStandbyReplyMessage, walsender.c), and whoever confirms
// nothing is no synchronous standby (SyncRepGetCandidateStandbys, syncrep.c).
// The first one asks for a keepalive, which tells how far the server is.
func (s *stream) status(ask bool) error {
	m := protocol.StandbyStatusUpdate{Write: s.position, SendTime: protocol.Micros(time.Now()), ReplyRequested: ask}
	return s.send(protocol.AppendCopyData(nil, m.Append(nil)))
}

// finish ends the stream and waits for the server's last words.
func (s *stream) finish() error {
	if err := s.send(protocol.AppendCopyDone(nil)); err != nil {
		return err
	}
	for deadline := time.Now().Add(drainTimeout); !s.done && time.Now().Before(deadline); {
		if err := s.receive(deadline); err != nil {
			return err
		}
	}
	return s.send([]byte{protocol.FrameTerminate, 0, 0, 0, 4})
}

// message acts on a message and passes it on.
func (s *stream) message(m *trace.Message) {
	if s.emitErr == nil {
		s.emitErr = s.cfg.Emit(m)
	}
	if m.Direction == trace.Upstream {
		return
	}
	switch m.Name {
	case "DataRow":
		var row protocol.DataRow
		if row.Decode(m.Body()) == nil {
			for _, v := range row.Values {
				s.row = append(s.row, string(v))
			}
		}
	case "ErrorResponse":
		var e protocol.ErrorResponse
		if err := e.Decode(m.Body()); err == nil {
			s.failed = fmt.Errorf("the server says: %s: %s (SQLSTATE %s)", e.Severity, e.Message, e.Code)
		}
	case "CopyBothResponse":
		s.streaming = true
	case "CopyDone":
		s.ended = true
	case "ReadyForQuery":
		s.done = true
	case "PrimaryKeepalive":
		var k protocol.PrimaryKeepalive
		if k.Decode(m.Body()) == nil {
			s.reply = s.reply || k.ReplyRequested
			s.position = max(s.position, k.WALEnd) // all up to there was sent (WalSndKeepalive, walsender.c)
		}
	case "XLogData", "SlotMessage":
		s.position = max(s.position, m.End)
	}
}
