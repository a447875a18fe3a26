package replay

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/slotferry/slotferry/internal/livetrace"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// serve replays a connection of the recorded session and returns the address.
func serve(t *testing.T, connection uint32, keepTime bool) string {
	t.Helper()
	data, err := os.ReadFile("../../testdata/capture/session.capture")
	if err != nil {
		t.Fatal(err)
	}
	recording, err := Read(bytes.NewReader(data), int64(len(data)), connection)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Serve(ctx, l, Config{Recording: recording, KeepTime: keepTime}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l.Addr().String()
}

// TestReplayIsStreamed replays a stream of slot messages, which was recorded with
// a login by SCRAM, to a client that does not know the password.
func TestReplayIsStreamed(t *testing.T) {
	for _, keepTime := range []bool{false, true} {
		host, port, err := net.SplitHostPort(serve(t, 3, keepTime))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		err = livetrace.Run(t.Context(), livetrace.Config{
			Conninfo: fmt.Sprintf("host=%s port=%s user=anyone dbname=x sslmode=prefer", host, port), Mode: livetrace.SlotState,
			End: protocol.LSN(1), Trace: trace.Config{At: -1},
			Emit: func(m *trace.Message) error { lines = append(lines, string(m.AppendText(nil))); return nil },
		})
		all := strings.Join(lines, "\n")
		if !strings.Contains(all, "slot_name=orders") || !strings.Contains(all, "slot_name=ph1") {
			t.Errorf("the slot message is missing (%v):\n%s", err, all)
		}
	}
}

// TestUnknownConnection names one that the capture does not have.
func TestUnknownConnection(t *testing.T) {
	data, err := os.ReadFile("../../testdata/capture/session.capture")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bytes.NewReader(data), int64(len(data)), 77); err != errNoConnection {
		t.Errorf("got %v", err)
	}
}
