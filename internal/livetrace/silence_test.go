package livetrace

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// countedConn counts how often it is read.
type countedConn struct {
	net.Conn
	reads int
}

func (c *countedConn) Read(b []byte) (int, error) {
	c.reads++
	return c.Conn.Read(b)
}

// A relay that has nothing to say for an hour is waited for, not asked all the time.
func TestSilentRelayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		conn := &countedConn{Conn: client}
		s := &stream{cfg: Config{Mode: SlotState, Emit: func(*trace.Message) error { return nil }}, conn: conn}
		s.session = trace.NewSession(s.cfg.Trace, 1, s.message)
		s.session.Resume(&protocol.CaptureResume{Phase: byte(trace.PhaseSession)})
		go func() {
			defer server.Close()
			query := make([]byte, 64)
			if _, err := server.Read(query); err != nil {
				t.Error(err)
			}
			if _, err := server.Write(protocol.AppendCopyBothResponse(nil)); err != nil {
				t.Error(err)
			}
			<-time.After(time.Hour) // of the bubble's clock
		}()
		if err := s.copy(t.Context(), "SLOT_STATE"); err == nil {
			t.Error("the end of the connection was not noticed")
		}
		if most := int(time.Hour/statusInterval) + 10; conn.reads > most {
			t.Errorf("read %d times, want at most %d", conn.reads, most)
		}
	})
}
