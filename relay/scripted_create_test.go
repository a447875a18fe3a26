package relay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

const creatorPID = 44 // of the walsender that makes a slot

// create logs a client in that makes a slot with a snapshot, has the upstream
// answer with consistentPoint, and returns what is still to come of that answer.
func (s *heldScript) create(name, consistentPoint string) (client, walsender *peer, rest []byte) {
	s.t.Helper()
	client, walsender = s.loginAs(creatorPID, "user", "a", "replication", "database", "database", "d")
	s.list(standbyPID, subscriberPID, creatorPID)
	command := query(fmt.Sprintf("CREATE_REPLICATION_SLOT %q LOGICAL pgoutput (SNAPSHOT 'use')", name))
	client.send(command)
	walsender.expect(command)
	head := rowDescription("slot_name", "consistent_point", "snapshot_name", "output_plugin")
	rest = dataRow(name, consistentPoint, "-", "pgoutput")
	rest = protocol.AppendCommandComplete(rest, "CREATE_REPLICATION_SLOT")
	rest = protocol.AppendReadyForQuery(rest)
	walsender.send(slices.Concat(head, rest))
	client.expect(head)
	return client, walsender, rest
}

// The answer to CREATE_REPLICATION_SLOT waits for the standbys, without a keepalive
// in between, and shows in the status as what it is.
func TestCreationOfSlotWaits(t *testing.T) {
	t.Parallel()
	s := newHeldScript(t, nil)
	s.flush(0x300)
	read := &walsenders{slots: []logicalSlot{{name: "sync", active: creatorPID, confirmed: 0x400}}}
	client, walsender, rest := s.create("sync", "0/400")
	st := s.waits()
	h := st.HoldBack
	if !h.Creates || h.Slot != "sync" || h.WaitsFor != 0x400 || h.Reason != HoldBehind || !slices.Equal(h.By, []string{"s1"}) || st.State != "busy" {
		t.Errorf("status %+v %+v", st, h)
	}
	// Its slot has a position that the standbys have not, and nobody knows of it.
	read.list = s.relay.hold.read.list
	s.relay.hold.walsendersRead(read)
	if list := s.relay.Status().HoldBack.Slots; len(list) != 1 || list[0].Ahead != 0 {
		t.Errorf("slots %+v", list)
	}
	eventually(t, "two ticks", func() (bool, string) {
		held := time.Since(*s.waits().HoldBack.Since)
		return held > 2*holdTick, held.String()
	})
	s.flush(0x3FF)
	s.flush(0x400)
	client.expect(rest)
	if st := s.relay.Status().Sessions; st[len(st)-1].HoldBack.State != "passing" || st[len(st)-1].HoldBack.Creates {
		t.Errorf("status %+v", st[len(st)-1].HoldBack)
	}
	client.send(query("COPY t TO STDOUT"))
	walsender.expect(query("COPY t TO STDOUT"))
	rows := slices.Concat([]byte("H\x00\x00\x00\x07\x00\x00\x00"), protocol.AppendCopyData(nil, []byte("1\n")), protocol.AppendCopyDone(nil))
	walsender.send(rows)
	client.expect(rows)
}

// What cannot come, or is not wanted any more, is not waited for.
func TestHeldCreationEnds(t *testing.T) {
	for _, test := range []struct {
		name       string
		do         func(s *heldScript, client, walsender *peer)
		code, text string // "": the client is gone
	}{
		{"walsender gone", func(s *heldScript, _, _ *peer) { s.list(standbyPID, subscriberPID) }, codeConnectionFailure, "walsender is gone"},
		{"upstream closes", func(_ *heldScript, _, w *peer) { _ = w.conn.Close() }, codeConnectionFailure, "the upstream has closed"},
		{"upstream shuts down", func(s *heldScript, _, _ *peer) { s.relay.hold.upstreamEnding() }, codeAdminShutdown, "the upstream is shutting down"},
		{"relay shuts down", func(s *heldScript, _, _ *peer) { go s.stop() }, codeAdminShutdown, "slotferry is shutting down"},
		{"cancel", func(s *heldScript, _, _ *peer) {
			m := protocol.CancelRequest{PID: creatorPID, Key: []byte{1, 2, 3, 4}}
			s.connect().send(m.Append(nil))
			server := s.accept()
			server.expect(m.Append(nil)) // it gets it first
			_ = server.conn.Close()
		}, codeQueryCanceled, "canceled at user request"},
		{"client terminates", func(_ *heldScript, c, w *peer) {
			c.send([]byte{'X', 0, 0, 0, 4})
			_ = c.conn.Close()
			w.expect([]byte{'X', 0, 0, 0, 4})
		}, "", ""},
		{"client closes", func(_ *heldScript, c, _ *peer) { _ = c.conn.Close() }, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newHeldScript(t, nil)
			s.flush(0x300)
			client, walsender, _ := s.create("sync", "0/400")
			s.waits()
			test.do(s, client, walsender)
			if test.code != "" {
				client.fatal(test.code, test.text)
				_ = client.conn.Close()
			}
			if test.name == "relay shuts down" {
				return
			}
			if test.name != "upstream closes" {
				walsender.ended()
			}
			eventually(t, "the session to end", func() (bool, string) {
				list := s.relay.Status().Sessions
				return !slices.ContainsFunc(list, func(st SessionStatus) bool { return st.HoldBack != nil && st.HoldBack.Creates }), fmt.Sprintf("%+v", list)
			})
			if n := s.relay.hold.counts.ended.Load(); n != 1 {
				t.Errorf("%d counted", n)
			}
		})
	}
}

// A creation that may wait no longer is let go, which is said once and counted. The
// stream that comes behind it on the same connection is held back as any other.
func TestCreationIsLetGo(t *testing.T) {
	t.Parallel()
	s := newHeldScript(t, func(h *HoldBack) { h.Timeout = time.Millisecond })
	s.flush(0x300)
	client, walsender, rest := s.create("sync", "0/400")
	client.expect(rest)
	if n := s.relay.Status().HoldBack.LetGo; n != 1 {
		t.Errorf("%d let go", n)
	}
	if text := s.log.String(); strings.Count(text, "is let go") != 1 || !strings.Contains(text, `"slot_name":"sync","creates_slot":true`) {
		t.Errorf("log:\n%s", text)
	}
	if err := s.relay.SetHoldBack(HoldBack{Standbys: mustNames(t, "s1")}); err != nil {
		t.Fatal(err)
	}
	s.start(client, walsender, `START_REPLICATION SLOT "sync" LOGICAL 0/400 (proto_version '1')`)
	walsender.send(streamFrame(t, "XLogData", "0/500"))
	if h := s.waits().HoldBack; h.Creates || h.WaitsFor != 0x500 {
		t.Errorf("status %+v", h)
	}
	if strings.Contains(s.log.String(), "held back again") {
		t.Errorf("log:\n%s", s.log)
	}
}

// Whoever waits for long is told of, by what it is.
func TestLongHeldCreationIsLogged(t *testing.T) {
	var out bytes.Buffer
	k := newHeldStream(&session{log: zerolog.New(&out)}, newHoldHub(HoldBack{Standbys: mustNames(t, "s1")}), nil)
	g := &holdGate{creates: true, slot: "sync", blocked: 0x400, last: holdDecision{Verdict: holdHold, Reason: HoldBehind, At: 0x400, By: []string{"s1"}}}
	for range 2 {
		k.log(g, HeldLong)
	}
	g.blocked = protocol.InvalidLSN
	k.log(g, 0)
	const want = `{"level":"warn","slot_name":"sync","creates_slot":true,"waits_for":"0/400","by":["s1"],"reason":"standby_behind","message":"a logical session is held back"}
{"level":"info","slot_name":"sync","creates_slot":true,"message":"the logical session goes on"}
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}
