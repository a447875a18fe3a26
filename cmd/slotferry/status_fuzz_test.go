package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// FuzzStatusDocument checks that whatever a process answers that status asks, and a
// relay by --helper-url, can be shown to people: it controls no terminal.
func FuzzStatusDocument(f *testing.F) {
	doc := statusdoc.Document{Kind: statusdoc.Kind, Time: time.Unix(1e9, 0), Helper: &decoder.Status{Role: decoder.RoleStandby,
		Slots: []decoder.SlotStatusJSON{{Name: "s", State: decoder.StatePending, Detail: "d", Upstream: 5}}},
		Relay:    &relay.Status{Sessions: []relay.SessionStatus{{ID: 1, ApplicationName: "b", HelperReport: &protocol.HelperReport{Standby: "b"}}}},
		NotReady: []statusdoc.NotReady{{Part: "helper", Slot: "s", Reason: "x", Detail: "\x1b[2J"}}}
	text, err := json.Marshal(doc)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"kind":"slotferry.status/1","relay":{"sessions":[{"hold_back":{"slot":"\u001b]0;x\u0007"}}]},"helper":{"promotion":{"slots":[{}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d statusdoc.Document
		if json.Unmarshal(text, &d) != nil {
			return
		}
		_, _ = readinessOf(&d)
		v := statusView{}
		v.all([]answer{{URL: "http://127.0.0.1:1/status", Status: &d}, {URL: "http://127.0.0.1:2/status", Status: &d}})
		shown := v.out.String()
		if i := strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
			t.Errorf("%q is in what is shown of %s", shown[i], text)
		}
	})
}
