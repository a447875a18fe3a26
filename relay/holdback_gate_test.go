package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/slotferry/slotferry/protocol"
)

// TestHeldStream runs the transcripts of testdata/heldstream.
//
//	stream COMMAND  a stream begins, or with "none" a login is over; further lines set what the standbys have
//	                flushed, globs of exempt slots, and the limit
//	flushed LSN     the standbys have flushed so far, and the pump is woken; "later":
//	                it is not woken yet
//	send            the upstream sends frames, which wait behind those that wait
//	tick [held=]    a second has passed, or so much since the stream waits
//	done            the subscriber ends the copy
//	query           the client sends commands, one a line; "x..." is too long to be read
//
// The output is what the subscriber gets.
func TestHeldStream(t *testing.T) {
	datadriven.Walk(t, "testdata/heldstream", func(t *testing.T, path string) {
		s := new(scriptedStream)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			lines := strings.Split(strings.TrimSpace(d.Input), "\n")
			if s.down != nil {
				s.down.gate.stream.Held = argDuration(t, d, "held")
			}
			switch d.Cmd {
			case "stream":
				command, _, _ := strings.Cut(d.Input, "\n")
				if command == "none" {
					command = ""
				}
				*s = *newScriptedStream(command)
				for _, line := range lines[1:] {
					key, value, _ := strings.Cut(line, " ")
					switch key {
					case "flushed":
						s.flushed(mustLSN(t, value))
					case "exempt":
						s.exempt = []string{value}
					case "limit":
						s.timeout = mustDuration(t, value)
					default:
						t.Fatalf("no setting %q", key)
					}
				}
				s.flushed(s.flush)
				s.begin()
			case "flushed":
				s.flushed(mustLSN(t, lines[0]))
				s.rest(false)
			case "later":
				s.flushed(mustLSN(t, lines[0]))
			case "send":
				for _, line := range lines {
					name, text, _ := strings.Cut(line, " ")
					if name != "" {
						s.pending = append(s.pending, streamFrame(t, name, text)...)
					}
				}
			case "tick":
				s.rest(true)
			case "query":
				for _, line := range lines {
					if strings.HasPrefix(line, "x...") {
						line = strings.Repeat("x", maxHeldQuery)
					}
					s.up.Scan(query(line))
				}
			case "done":
				s.up.Scan(protocol.AppendCopyDone(nil))
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			if d.Cmd != "later" && d.Cmd != "tick" || s.down.gate.stream.LetGo {
				s.scan()
			}
			return s.output()
		})
	})
}

// scriptedStream is a logical stream through a pair of Flows, without a pump.
type scriptedStream struct {
	conv     Conversation
	down, up *Flow
	pending  []byte // sent by the upstream, and not dealt with
	got      []byte // by the subscriber
	command  string
	waits    bool
	err      error // the session ends

	exempt  []string
	timeout time.Duration
	flush   protocol.LSN
}

func newScriptedStream(command string) *scriptedStream {
	s := &scriptedStream{command: command}
	s.down, s.up = newFlow(Downstream, false, 0, &s.conv), newFlow(Upstream, false, 0, &s.conv)
	s.down.gate = &holdGate{stream: holdStream{Walsender: streamPID}}
	s.flushed(protocol.InvalidLSN)
	return s
}

// begin logs in and starts the stream.
func (s *scriptedStream) begin() {
	// The Flows must share this conversation, also after a copy.
	s.down.conv, s.up.conv = &s.conv, &s.conv
	s.pending = append(s.pending, 'R', 0, 0, 0, 8, 0, 0, 0, 0)
	s.pending = protocol.AppendReadyForQuery(s.pending)
	s.scan()
	if s.command != "" {
		s.up.Scan(query(s.command))
		s.pending = protocol.AppendCopyBothResponse(s.pending)
		s.scan()
	}
	s.got = nil
}

func (s *scriptedStream) flushed(lsn protocol.LSN) {
	standby := walsender{pid: 100, physical: true}
	standby.ApplicationName, standby.Flush, standby.Streaming = "s1", lsn, true
	names := &StandbyNames{n: 1, names: []string{"s1"}}
	v := newHoldView(names, &walsenders{list: []walsender{{pid: streamPID}, standby}}, nil, false)
	v.exempt, v.timeout = s.exempt, s.timeout
	s.flush = lsn
	s.down.gate.setView(v)
}

func (s *scriptedStream) scan() {
	v := s.down.Scan(s.pending)
	_ = v.each(s.pending, nil, func(b []byte) error { s.got = append(s.got, b...); return nil })
	s.pending = append([]byte(nil), s.pending[v.Used:]...)
	s.waits, s.err = v.Held, v.Err
}

// rest has the gate say what is owed.
func (s *scriptedStream) rest(tick bool) {
	if !s.down.AtBoundary() {
		return
	}
	if m := s.down.gate.own(tick, 0); m != nil {
		s.got = protocol.AppendCopyData(s.got, m.Append(nil))
	}
}

// output says what the subscriber got since the last time.
func (s *scriptedStream) output() string {
	var out strings.Builder
	for len(s.got) > 0 {
		var h protocol.FrameHeader
		if h.Decode(s.got) != nil || h.Size() > len(s.got) {
			return out.String() + fmt.Sprintf("torn %q\n", s.got)
		}
		body := s.got[protocol.FrameHeaderLen:h.Size()]
		s.got = s.got[h.Size():]
		var x protocol.XLogData
		var k protocol.PrimaryKeepalive
		switch {
		case h.Type != protocol.FrameCopyData:
			fmt.Fprintf(&out, "%c\n", h.Type)
		case len(body) > 0 && body[0] == protocol.MsgXLogData && x.Decode(body[1:]) == nil:
			fmt.Fprintf(&out, "XLogData %v\n", x.DataStart)
		case len(body) > 0 && body[0] == protocol.MsgPrimaryKeepalive && k.Decode(body[1:]) == nil:
			fmt.Fprintf(&out, "PrimaryKeepalive %v", k.WALEnd)
			if k.ReplyRequested {
				out.WriteString(" reply")
			}
			out.WriteString("\n")
		default:
			fmt.Fprintf(&out, "CopyData %s\n", body)
		}
	}
	if s.err != nil {
		fmt.Fprintf(&out, "ends: %v\n", s.err)
	}
	if s.waits {
		fmt.Fprintf(&out, "waits: %v\n", s.down.gate.view.decide(s.down.gate.stream, s.down.gate.waitsFor()))
	}
	return out.String()
}

// streamFrame builds a frame of a logical stream.
func streamFrame(t testing.TB, name, text string) []byte {
	t.Helper()
	position, flag, _ := strings.Cut(text, " ")
	switch name {
	case "XLogData":
		lsn := mustLSN(t, position)
		m := protocol.XLogData{DataStart: lsn, WALEnd: lsn, SendTime: 5, Data: []byte("what the plugin says")}
		return protocol.AppendCopyData(nil, m.Append(nil))
	case "PrimaryKeepalive":
		m := protocol.PrimaryKeepalive{WALEnd: mustLSN(t, position), SendTime: 5, ReplyRequested: flag == "reply"}
		return protocol.AppendCopyData(nil, m.Append(nil))
	case "CopyData":
		return protocol.AppendCopyData(nil, []byte(text))
	case "CopyDone":
		return protocol.AppendCopyDone(nil)
	case "CommandComplete":
		return protocol.AppendCommandComplete(nil, text)
	case "ReadyForQuery":
		return protocol.AppendReadyForQuery(nil)
	case "ErrorResponse":
		e := protocol.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: text}
		return e.Append(nil)
	case "RowDescription":
		return rowDescription(strings.Fields(text)...)
	case "DataRow":
		return dataRow(strings.Fields(text)...)
	}
	t.Fatalf("no frame %q", name)
	return nil
}

func mustDuration(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever a walsender sends, however it is cut, and whatever the standbys do: the
// subscriber gets all data in order and unchanged, never a position that the
// standbys had not flushed or that the walsender had not given, never one past a
// message that it has not got, and in the end, when the standbys have all, the last.
func TestHeldStreamProperties(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		s := newScriptedStream(`START_REPLICATION SLOT "sub" LOGICAL 0/0`)
		s.begin()
		var sent []protocol.LSN // positions of data
		var position, flush, best, told, seen protocol.LSN
		received := 0
		given := map[protocol.LSN]bool{protocol.InvalidLSN: true}
		check := func() {
			for len(s.got) > 0 {
				var h protocol.FrameHeader
				if err := h.Decode(s.got); err != nil || h.Size() > len(s.got) {
					return // the rest is on its way
				}
				body := s.got[protocol.FrameHeaderLen:h.Size()]
				s.got = s.got[h.Size():]
				var x protocol.XLogData
				var k protocol.PrimaryKeepalive
				at := protocol.InvalidLSN
				if x.Decode(body[1:]) == nil && body[0] == protocol.MsgXLogData {
					if at = x.DataStart; at != sent[received] {
						t.Fatalf("got data at %v, want %v", at, sent[received])
					}
					received++
				} else if err := k.Decode(body[1:]); err != nil {
					t.Fatal(err)
				} else {
					at = k.WALEnd
				}
				if at > best {
					t.Fatalf("shown %v, the standbys never had more than %v", at, best)
				}
				if received < len(sent) && at >= sent[received] && sent[received] != protocol.InvalidLSN {
					t.Fatalf("shown %v, and the message at %v has not come", at, sent[received])
				}
				if !given[at] {
					t.Fatalf("shown %v, which can be in the middle of a record", at)
				}
				seen = max(seen, at)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"data", "data", "keepalive", "flush", "gone", "tick", "read"}).Draw(t, "step") {
			case "data":
				position += protocol.LSN(rapid.Uint64Range(1, 9).Draw(t, "length"))
				at := position
				if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
					at = protocol.InvalidLSN
				}
				sent, given[at] = append(sent, at), true
				s.pending = append(s.pending, streamFrame(outer, "XLogData", at.String())...)
			case "keepalive":
				position += protocol.LSN(rapid.Uint64Range(0, 9).Draw(t, "length"))
				told, given[position] = position, true
				s.pending = append(s.pending, streamFrame(outer, "PrimaryKeepalive", position.String())...)
			case "flush":
				flush = max(flush, min(position, flush+protocol.LSN(rapid.Uint64Range(0, 12).Draw(t, "more"))))
				best = max(best, flush)
				s.flushed(flush)
				s.rest(false)
			case "gone":
				s.flushed(protocol.InvalidLSN)
			case "tick":
				s.rest(true)
			case "read":
				whole := s.pending
				n := rapid.IntRange(0, len(whole)).Draw(t, "bytes")
				s.pending = whole[:n:n]
				s.scan()
				s.pending = append(s.pending, whole[n:]...)
			}
			check()
		}
		best = max(best, position)
		s.flushed(position)
		s.rest(true)
		check()
		s.scan()
		check()
		s.rest(true)
		check()
		if received != len(sent) || len(s.pending) > 0 || seen < told {
			t.Fatalf("%d of %d messages, %d bytes wait, shown %v of %v", received, len(sent), len(s.pending), seen, told)
		}
	})
}

// A stream is let go until the standbys have all that passed meanwhile. A change that
// they have, of a transaction that began before they stalled, held it back again: each
// such transaction waited for the whole timeout.
func TestLetGoUntilCaughtUp(t *testing.T) {
	s := newScriptedStream("")
	s.timeout = time.Second
	g := s.down.gate
	for _, step := range []struct {
		flushed, at  protocol.LSN
		held         time.Duration
		passes, free bool
	}{
		{flushed: 0x100, at: 0x90, passes: true},
		{flushed: 0x100, at: 0x110},
		{flushed: 0x100, at: 0x110, held: time.Second, passes: true, free: true},
		{flushed: 0x100, at: 0x95, passes: true, free: true},
		{flushed: 0x100, at: 0x120, passes: true, free: true},
		{flushed: 0x115, at: 0x112, passes: true, free: true},
		{flushed: 0x11f, at: 0x118, passes: true, free: true},
		{flushed: 0x120, at: 0x130},
		{flushed: 0x120, at: 0x130, held: time.Second, passes: true, free: true},
		{flushed: 0x140, at: 0x135, passes: true},
	} {
		s.flushed(step.flushed)
		g.stream.Held = step.held
		if got := g.data(step.at); got != step.passes || g.stream.LetGo != step.free {
			t.Errorf("%+v: passes %v, let go %v", step, got, g.stream.LetGo)
		}
	}
}
