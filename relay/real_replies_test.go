package relay_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
)

// checkReplies compares what a server that has been promoted answers to replication
// commands with what comes through a splicing relay, asked for slot messages and
// not: a result set in the place of a stream, an error right behind
// CopyBothResponse, streams that the client ends, and commands behind each.
func checkReplies(t *testing.T, server *cluster.Server, r *runningRelay) {
	t.Helper()
	history := clustertest.Value[string](t, server, "postgres", "SELECT pg_read_file('pg_wal/00000002.history')")
	at := regexp.MustCompile(`[0-9A-F]+/[0-9A-F]+`).FindString(history)
	commands := []string{
		"IDENTIFY_SYSTEM", "TIMELINE_HISTORY 2",
		"START_REPLICATION " + at + " TIMELINE 1", // where it ends
		"SHOW wal_segment_size",
		"START_REPLICATION 0/1000000 TIMELINE 2", // removed, or never there
		"START_REPLICATION " + at + " TIMELINE 2",
		"IDENTIFY_SYSTEM",
		"START_REPLICATION " + at + " TIMELINE 2",
		"NONSENSE", "START_REPLICATION SLOT none PHYSICAL " + at, "IDENTIFY_SYSTEM",
	}
	want, _ := replies(t, server.Addr(), "", commands)
	for _, part := range []string{"START_REPLICATION " + at + " TIMELINE 1: T D C", "W E 58P01", "TIMELINE 2: W d c C", "E 42704"} {
		if !strings.Contains(want, part) {
			t.Fatalf("the server itself does not answer with %q:\n%s", part, want)
		}
	}
	for _, marker := range []string{"", protocol.OptInValue} {
		got, ours := replies(t, r.addr, marker, commands)
		if got != want {
			t.Errorf("through the relay, marker %q:\n%s\ndirect:\n%s", marker, got, want)
		}
		if (ours > 0) != (marker != "") {
			t.Errorf("marker %q: %d slot messages", marker, ours)
		}
	}
}

// replies sends commands over one connection and returns the kinds of frames that
// come back, and how many slot messages were among them. A stream is ended when
// something has come over it, and where slot messages were asked for, one of those.
func replies(t *testing.T, addr, marker string, commands []string) (text string, ours int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitTimeout))
	m := protocol.StartupMessage{Version: protocol.ProtocolVersion3, Parameters: []protocol.StartupParameter{
		{Name: "user", Value: cluster.Superuser}, {Name: "replication", Value: "true"},
	}}
	if marker != "" {
		m.Parameters = append(m.Parameters, protocol.StartupParameter{Name: protocol.OptInParameter, Value: marker})
	}
	send := func(b []byte) {
		t.Helper()
		_, err := conn.Write(b)
		must(t, err)
	}
	frame := func() (kind byte, body []byte) {
		t.Helper()
		var head [5]byte
		_, err := io.ReadFull(conn, head[:])
		must(t, err)
		body = make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		_, err = io.ReadFull(conn, body)
		must(t, err)
		return head[0], body
	}
	send(m.Append(nil))
	for kind := byte(0); kind != protocol.FrameReadyForQuery; {
		kind, _ = frame()
	}
	var out strings.Builder
	for _, command := range commands {
		send(append(binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(command)+5)), command+"\x00"...))
		fmt.Fprintf(&out, "%s:", command)
		before, wal, done := ours, false, false
		for kind := byte(0); kind != protocol.FrameReadyForQuery; {
			var body []byte
			kind, body = frame()
			switch {
			case kind == protocol.FrameNotice:
				continue
			case kind == protocol.FrameErrorResponse:
				var e protocol.ErrorResponse
				must(t, e.Decode(body))
				fmt.Fprintf(&out, " E %s", e.Code)
				continue
			case kind == protocol.FrameCopyData && len(body) > protocol.XLogDataHeaderLen && protocol.HasSlotMagic(body[protocol.XLogDataHeaderLen:]):
				ours++
			case kind == protocol.FrameCopyData && wal: // how many there are is up to the server
			default:
				fmt.Fprintf(&out, " %c", kind)
				wal = wal || kind == protocol.FrameCopyData
			}
			if wal && !done && (marker == "" || ours > before) {
				done = true
				send(protocol.AppendCopyDone(nil))
			}
		}
		out.WriteString("\n")
	}
	return out.String(), ours
}
