package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/slotferry/slotferry/protocol"
)

// TestConversation runs the transcripts of testdata/conversation. Each line of
// input is one frame in the order in which the relay forwards it:
//
//	< NAME [text]   from the upstream
//	> NAME [text]   from the downstream
//	answer          the relay says what it owes for SLOT_STATE
//
// The output is the state behind it, and whether a slot message may go there.
func TestConversation(t *testing.T) {
	datadriven.Walk(t, "testdata/conversation", func(t *testing.T, path string) {
		var c Conversation
		down, up := newFlow(Downstream, false, 0, &c), newFlow(Upstream, false, 0, &c)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "session":
				c = Conversation{Marker: d.HasArg("marker"), Sidecar: d.HasArg("source")}
				strip := d.HasArg("strip")
				down, up = newFlow(Downstream, strip, 0, &c), newFlow(Upstream, strip, 0, &c)
				return ""
			case "frames":
				var out strings.Builder
				for line := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&out, "%-46s %s\n", line, conversationStep(t, line, down, up))
				}
				return out.String()
			}
			d.Fatalf(t, "no command %q", d.Cmd)
			return ""
		})
	})
}

// conversationStep lets one frame pass and says what that did.
func conversationStep(t *testing.T, line string, down, up *Flow) string {
	t.Helper()
	side, name, _ := strings.Cut(line, " ")
	name, text, _ := strings.Cut(name, " ")
	flow := down
	if side == ">" {
		flow = up
	}
	var note []string
	if side == "answer" {
		owed, _ := flow.conv.sidecarOwes(nil)
		note = append(note, "sent "+frameTypes(owed))
	} else {
		b := transcriptFrame(t, name, text)
		v := flow.Scan(b)
		n := 0
		_ = v.each(b, nil, func(p []byte) error { n += len(p); return nil })
		switch {
		case v.Err != nil:
			note = append(note, "refused: "+v.Err.Error())
		case len(v.Taken) > 0:
			note = append(note, "taken")
		case n == 0:
			note = append(note, "dropped")
		}
	}
	if flow.conv.MaySplice() {
		note = append(note, "may splice at "+down.Position().String())
	}
	return strings.Join(append([]string{flow.conv.State()}, note...), ", ")
}

func frameTypes(b []byte) string {
	var kinds []string
	for len(b) > 0 {
		var h protocol.FrameHeader
		if h.Decode(b) != nil {
			break
		}
		kinds = append(kinds, string(h.Type))
		b = b[h.Size():]
	}
	return strings.Join(kinds, " ")
}

// transcriptFrame builds a frame by PostgreSQL's name for it.
func transcriptFrame(t *testing.T, name, text string) []byte {
	t.Helper()
	switch name {
	case "AuthenticationOk":
		return []byte{'R', 0, 0, 0, 8, 0, 0, 0, 0}
	case "ReadyForQuery":
		return protocol.AppendReadyForQuery(nil)
	case "CopyBothResponse":
		return protocol.AppendCopyBothResponse(nil)
	case "CopyDone":
		return protocol.AppendCopyDone(nil)
	case "CopyFail":
		return []byte("f\x00\x00\x00\x05\x00")
	case "CopyOutResponse":
		return []byte{'H', 0, 0, 0, 7, 0, 0, 0}
	case "CommandComplete":
		return protocol.AppendCommandComplete(nil, text)
	case "ErrorResponse":
		e := protocol.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: text}
		return e.Append(nil)
	case "NoticeResponse":
		return []byte("N\x00\x00\x00\x05\x00")
	case "Query":
		return query(text)
	case "Sync":
		return []byte{'S', 0, 0, 0, 4}
	case "Terminate":
		return []byte{'X', 0, 0, 0, 4}
	case "XLogData": // at an LSN, of 256 bytes
		if text == "0/0" {
			m := protocol.XLogData{Data: []byte("nobody knows")}
			return protocol.AppendCopyData(nil, m.Append(nil))
		}
		lsn, err := protocol.ParseLSN(text)
		if err != nil {
			t.Fatal(err)
		}
		return walFrame(lsn, 256)
	case "PrimaryKeepalive":
		return protocol.AppendCopyData(nil, new(protocol.PrimaryKeepalive).Append(nil))
	case "SlotMessage":
		parts, err := new(protocol.SlotMessage).Parts(0)
		if err != nil {
			t.Fatal(err)
		}
		return protocol.AppendSlotFrame(nil, 1, 1, parts[0])
	case "StandbyStatusUpdate":
		return protocol.AppendCopyData(nil, new(protocol.StandbyStatusUpdate).Append(nil))
	case "HelperReport":
		b, err := new(protocol.HelperReport).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return protocol.AppendCopyData(nil, b)
	}
	t.Fatalf("no frame %q", name)
	return nil
}
