package statusdoc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/relay"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func freshHelper() *decoder.Status {
	return &decoder.Status{
		Time: now.Add(-time.Second), Role: decoder.RoleStandby,
		Upstream: decoder.UpstreamStatus{Fresh: true, MessageAge: 0.5},
		Slots: []decoder.SlotStatusJSON{
			{Name: "orders", Database: "shop", Plugin: "pgoutput", State: decoder.StateReady, Upstream: 0x5000, Local: 0x4000, Lag: 0x1000},
		},
	}
}

func connectedRelay() *relay.Status {
	return &relay.Status{
		Mode: relay.ModeSplice, Listen: []string{"127.0.0.1:6432"},
		SlotSource: &relay.SlotSourceStatus{Connected: true, LastMessage: now.Add(-time.Second)},
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		relay  func(*relay.Status)
		helper func(*decoder.Status)
		want   []string // part, slot and reason
	}{
		{"all well", func(*relay.Status) {}, func(*decoder.Status) {}, nil},
		{"relay alone", func(*relay.Status) {}, nil, nil},
		{"helper alone", nil, func(*decoder.Status) {}, nil},
		{"nothing", nil, nil, []string{"relay  not_running"}},
		{"plain relay", func(r *relay.Status) { r.SlotSource = nil }, nil, nil},
		{"not listening", func(r *relay.Status) { r.Listen = nil }, nil, []string{"relay  not_accepting"}},
		{"source away", func(r *relay.Status) { r.SlotSource.Connected = false }, nil, []string{"slot_source  slot_source_not_connected"}},
		{"nothing read yet", func(r *relay.Status) { r.SlotSource.LastMessage = time.Time{} }, nil, []string{"slot_source  no_slot_message"}},
		{"a slot waits", nil, func(h *decoder.Status) {
			h.Slots[0].State, h.Slots[0].Reason = decoder.StatePending, decoder.ReasonSubscriberBehind
		}, []string{"slot orders subscriber_behind"}},
		{"no slots, and no anchor for the first", nil, func(h *decoder.Status) { h.Slots = nil }, []string{"anchor  no_anchor"}},
		{"no slots, and an anchor that fails", nil, func(h *decoder.Status) {
			h.Slots, h.Anchor = nil, decoder.AnchorStatus{Phase: "none", Reason: decoder.ReasonPrivilege}
		}, []string{"anchor  insufficient_privilege"}},
		{"no slots, and an anchor", nil, func(h *decoder.Status) { h.Slots, h.Anchor.Phase = nil, "live" }, nil},
		{"no slots, and an anchor on its way", nil, func(h *decoder.Status) { h.Slots, h.Anchor.Phase = nil, "moving" }, nil},
		{"no slots, no anchor, no upstream", nil, func(h *decoder.Status) { h.Slots, h.Upstream.Fresh = nil, false },
			[]string{"helper  upstream_state_stale"}},
		{"promoted", nil, func(h *decoder.Status) { h.Role = decoder.RolePrimary }, []string{"helper  not_in_recovery"}},
		{"a reason for all", nil, func(h *decoder.Status) { h.Reason = decoder.ReasonFeedbackOff }, []string{"helper  hot_standby_feedback_off"}},
		{"stale message", nil, func(h *decoder.Status) { h.Upstream.Fresh = false }, []string{"helper  upstream_state_stale"}},
		{"stuck helper", nil, func(h *decoder.Status) { h.Time = now.Add(-time.Minute) }, []string{"helper  status_stale"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Document{Time: now}
			if test.relay != nil {
				d.Relay = connectedRelay()
				test.relay(d.Relay)
			}
			if test.helper != nil {
				d.Helper = freshHelper()
				test.helper(d.Helper)
			}
			d.Judge()
			var got []string
			for _, n := range d.NotReady {
				got = append(got, n.Part+" "+n.Slot+" "+n.Reason)
				if n.Hint == "" && n.Reason != ReasonNotRunning && n.Reason != ReasonNotAccepting {
					t.Errorf("%s has no hint", n.Reason)
				}
			}
			if !reflect.DeepEqual(got, test.want) || d.Ready != (test.want == nil) || d.Kind != Kind {
				t.Errorf("ready %v because of %q, want %q", d.Ready, got, test.want)
			}
		})
	}
}

// The timeline is the one received; without a walreceiver the upstream's, and after a
// promotion the server's own.
func TestSystem(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(h *decoder.Status)
		want uint32
	}{
		{"streams", func(h *decoder.Status) { h.Standby.TimelineID, h.Upstream.TimelineID = 4, 3 }, 4},
		{"no walreceiver", func(h *decoder.Status) { h.Standby.TimelineID, h.Upstream.TimelineID = 0, 3 }, 3},
		{"promoted", func(h *decoder.Status) {
			h.Standby.TimelineID, h.Upstream.TimelineID, h.Promotion = 0, 3, &decoder.PromotionReport{TimelineID: 5}
		}, 5},
	} {
		h := freshHelper()
		h.Standby.SystemIdentifier = 7
		test.set(h)
		if id, timeline := (&Document{Helper: h}).System(); id != 7 || timeline != test.want {
			t.Errorf("%s: system %d, timeline %d, want %d", test.name, id, timeline, test.want)
		}
	}
}

// TestDocumentSurvivesJSON checks that what one process serves another reads.
func TestDocumentSurvivesJSON(t *testing.T) {
	d := Document{Version: "v", Command: "solo", Time: now, Started: now, Relay: connectedRelay(), Helper: freshHelper()}
	d.Relay.Sessions = []relay.SessionStatus{{ID: 1, Kind: relay.KindPhysical, Position: 0x4000}}
	d.Judge()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(&d); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	got, err := plainClient(t).Read(t.Context(), server.URL)
	if err != nil || !reflect.DeepEqual(got, &d) {
		t.Errorf("read %+v, %v, want %+v", got, err, &d)
	}
}

func plainClient(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(ClientFiles{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadRefuses(t *testing.T) {
	answer := func(code int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	gone := answer(200, "")
	for _, test := range []struct{ name, url, want string }{
		{"other status", answer(404, "{}"), "404"},
		{"redirect", answer(302, "{}"), "302"},
		{"asks for a token", answer(401, "{}"), "without the right token"},
		{"not JSON", answer(200, "<html>"), "not a status document"},
		{"another document", answer(200, `{"kind":"x"}`), `its kind is "x"`},
	} {
		var unreachable *UnreachableError
		if _, err := plainClient(t).Read(t.Context(), test.url); err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &unreachable) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var unreachable *UnreachableError
	if _, err := plainClient(t).Read(ended, gone); !errors.As(err, &unreachable) || unreachable.Hint() == "" {
		t.Errorf("got %v", err)
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"localhost:8432": "http://localhost:8432/status", "http://h:1/": "http://h:1/status", "https://h/x": "https://h/x",
		"127.0.0.1:1": "http://127.0.0.1:1/status", "[::1]:1": "http://[::1]:1/status",
	} {
		if got, err := ParseURL(text); err != nil || got != want {
			t.Errorf("ParseURL(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ftp://h", "http://", "http://h:x", "\x7f", "http://u:secret@h:1/", "u:secret@h:1", "http://u:secret@h:x/"} {
		if got, err := ParseURL(text); err == nil || strings.Contains(err.Error(), "secret@") {
			t.Errorf("ParseURL(%q) = %q, %v", text, got, err)
		}
	}
}

func TestMessageAgeGrowsWithTheDocument(t *testing.T) {
	d := Document{Time: now, Helper: freshHelper()}
	if got := d.MessageAge(); got != 1.5 {
		t.Errorf("MessageAge = %v, want 1.5", got)
	}
	d.Helper.Upstream.MessageAge = -1
	if got := d.MessageAge(); got != -1 {
		t.Errorf("MessageAge = %v, want -1", got)
	}
}

// TestRedactChangesACopy checks that the parts are left as they are: other
// goroutines read them.
func TestRedactChangesACopy(t *testing.T) {
	d := Document{Relay: connectedRelay(), SlotSource: connectedRelay().SlotSource, Helper: freshHelper()}
	d.Relay.SlotSource.Error, d.SlotSource.SnapshotError = "secret", "secret"
	d.Helper.Detail, d.Helper.Anchor.Detail, d.Helper.Slots[0].Detail = "secret", "secret", "secret"
	d.Helper.Promotion = &decoder.PromotionReport{Slots: []decoder.PromotionSlot{{Error: "secret"}}}
	masked := d
	masked.Redact(func(s string) string { return strings.ReplaceAll(s, "secret", "***") })
	if text, err := json.Marshal(&masked); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := json.Marshal(&d); err != nil || strings.Count(string(text), "secret") != 6 {
		t.Errorf("the original has changed: %v: %s", err, text)
	}
}
