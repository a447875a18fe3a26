package statusserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// chainText writes the chain on one line: what is wrong is in brackets.
func chainText(nodes []node) string {
	var parts []string
	for _, n := range nodes {
		text := n.Kind
		if n.Where != "" {
			text += " " + n.Where
		}
		if n.Here {
			text += "*"
		}
		if !n.Good {
			text = "[" + text + ": " + n.Note + "]"
		}
		if n.Link != "" {
			text = "-" + n.Link + "-> " + text
		}
		if len(n.Below) > 0 {
			text += " {" + chainText(n.Below) + "}"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// TestTopology walks through who runs where, and what each can know of the others.
func TestTopology(t *testing.T) {
	helper := func() *decoder.Status {
		return &decoder.Status{
			Role: decoder.RoleStandby, Upstream: decoder.UpstreamStatus{Fresh: true, TimelineID: 1},
			Standby: decoder.StandbyStatus{ReplayLSN: 0x5000, TimelineID: 1},
		}
	}
	source := &relay.SlotSourceStatus{Connected: true, Upstream: "db1:5432"}
	away := &relay.SlotSourceStatus{Error: "refused"}
	for _, test := range []struct {
		name string
		d    statusdoc.Document
		want string
	}{
		{"nothing runs yet", statusdoc.Document{Command: "relay"}, "[primary: not known yet]"},
		{"relay", statusdoc.Document{Command: "relay", Relay: &relay.Status{Listen: []string{":6432"}, SlotSource: source, Sessions: []relay.SessionStatus{
			{Kind: relay.KindPhysical, Downstream: "a:1", ApplicationName: "db2", OptedIn: true},
			{Kind: relay.KindPhysical, Downstream: "b:1"},
			{Kind: relay.KindSidecar, Downstream: "c:1", HelperReport: &protocol.HelperReport{Slots: []protocol.SlotReport{{State: "pending"}}}},
			{Kind: relay.KindQuery, Downstream: "d:1"},
		}}}, "primary db1:5432 -WAL, slots by SQL-> relay :6432* {-WAL, slot messages-> helper and standby db2, a:1 " +
			"-WAL-> standby or backup b:1 -slot messages-> [helper c:1: 0 of 1 slots ready, 1 pending]}"},
		{"relay whose upstream is away", statusdoc.Document{Command: "relay", Upstream: "db1:5432", Relay: &relay.Status{Listen: []string{":6432"}, SlotSource: away}},
			"[primary db1:5432: cannot be reached] -WAL, slots by SQL-> relay :6432*"},
		{"inline helper", statusdoc.Document{Command: "helper", Host: "db2", Upstream: "r:6432", Standby: "s:5432", Relay: &relay.Status{}, Helper: helper()},
			"primary -WAL, slots by SQL-> relay r:6432 -WAL, slot messages-> helper db2* -WAL-> standby s:5432"},
		{"sidecar", statusdoc.Document{Command: "helper", Host: "db2", Upstream: "r:6432", Standby: "s:5432", Helper: helper()},
			"primary -WAL, slots by SQL-> relay r:6432 -slot messages-> helper db2* -advances the slots by SQL-> standby s:5432"},
		{"solo", statusdoc.Document{Command: "solo", Host: "db2", Standby: "s:5432", Relay: &relay.Status{}, SlotSource: source, Helper: helper()},
			"primary db1:5432 -WAL, slots by SQL-> solo: relay and helper db2* -WAL-> standby s:5432"},
		{"stale", statusdoc.Document{Command: "helper", Helper: func() *decoder.Status {
			h := helper()
			h.Upstream.Fresh, h.Reason = false, decoder.ReasonUpstreamStale
			return h
		}()}, "[primary: timeline 1, WAL to 0/0] -WAL, slots by SQL-> [relay: slot messages have stopped] " +
			"-slot messages-> [helper*: upstream state stale] -advances the slots by SQL-> standby"},
		{"promoted", statusdoc.Document{Command: "helper", Helper: func() *decoder.Status {
			h := helper()
			h.Role, h.Reason, h.Promotion = decoder.RolePrimary, decoder.ReasonNotInRecovery, &decoder.PromotionReport{TimelineID: 2}
			return h
		}()}, "primary -WAL, slots by SQL-> relay -slot messages-> helper* -advances the slots by SQL-> [primary now: promoted to timeline 2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := chainText(topology(&test.d)); got != test.want {
				t.Errorf("chain is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestTopologyIsBounded draws only so many of a relay's sessions.
func TestTopologyIsBounded(t *testing.T) {
	d := statusdoc.Document{Relay: &relay.Status{}}
	for i := range 100 {
		d.Relay.Sessions = append(d.Relay.Sessions, relay.SessionStatus{Kind: relay.KindPhysical, Downstream: fmt.Sprint(i)})
	}
	if n := len(topology(&d)[1].Below); n != maxBelow {
		t.Errorf("%d sessions are drawn", n)
	}
}
