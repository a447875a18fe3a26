package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// helperDocument is of a helper with three slots, of which one is ready.
func helperDocument() statusdoc.Document {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := statusdoc.Document{
		Version: "v1", Command: "helper", Host: "db2", Time: now, Started: now.Add(-90 * time.Minute),
		Helper: &decoder.Status{
			Time: now, Role: decoder.RoleStandby,
			Standby:  decoder.StandbyStatus{SystemIdentifier: 7523094288207667809, TimelineID: 3, ReplayLSN: 0x16B374D848},
			Upstream: decoder.UpstreamStatus{Fresh: true, MessageAge: 0.25},
			Anchor:   decoder.AnchorStatus{Phase: "live", Position: 0x16B374D800},
			Slots: []decoder.SlotStatusJSON{
				{Name: "orders_sub", Database: "shop", Plugin: "pgoutput", State: decoder.StateReady, Upstream: 0x16B374D810, Local: 0x16B374D000,
					Lag: 0x810, LagTime: 2.25, Ahead: 0x400, Since: now.Add(-26 * time.Hour)},
				{Name: "late_sub", Database: "データ", Plugin: "pgoutput", State: decoder.StatePending, Reason: decoder.ReasonSubscriberBehind,
					Detail: "16 MB to go", Hint: decoder.ReasonSubscriberBehind.Hint(), Upstream: 0x16A0000000, Since: now.Add(-12 * time.Second)},
				{Name: "audit", Database: "bad\nname", Plugin: "wal2json", State: decoder.StateBlocked, Reason: decoder.ReasonPluginMissing,
					Hint: decoder.ReasonPluginMissing.Hint(), Upstream: 0x16B374D810, Since: now},
			},
		},
	}
	d.Judge()
	return d
}

func serveDocument(t *testing.T, d statusdoc.Document) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(&d); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestStatusTable(t *testing.T) {
	url := serveDocument(t, helperDocument())
	got := execute(t, nil, "", "status", "--url", url)
	const want = `system identifier 7523094288207667809

PROCESS  HOST  URL SERVER   TIMELINE  REPLAYED     SLOT MESSAGE  SLOTS READY     UP  VERSION  STATE
helper   db2   URL standby         3  16/B374D848     250ms old       1 of 3  1h30m  v1       NOT READY

SLOT        DATABASE     PLUGIN    UPSTREAM     STANDBY         LAG  LAG TIME  STATE    REASON             SINCE
orders_sub  shop         pgoutput  16/B374D810  16/B374D000  2064 B        2s  ready                        1d2h
late_sub    データ       pgoutput  16/A0000000  -                 -         -  pending  subscriber_behind    12s
audit       bad\x0aname  wal2json  16/B374D810  -                 -         -  blocked  plugin_missing        0s
orders_sub: its subscriber has confirmed 1024 B of WAL that db2 has not received
late_sub: 16 MB to go

1 of 3 slots ready, 1 pending, 1 blocked

helper on db2: anchor live at 16/B374D800
hint: subscriber_behind: Clears when the subscriber has confirmed that much more WAL.
hint: plugin_missing: Install the slot's output plugin on the standby.
`
	if text := regexp.MustCompile(`(URL|`+url+`/status) +`).ReplaceAllString(got.stdout, "URL "); got.status != exitFailed || got.stderr != "" || text != want {
		t.Errorf("status %d, stderr %q, stdout:\n%s", got.status, got.stderr, text)
	}
}

// relayDocument is of a relay that holds logical streams back.
func relayDocument() statusdoc.Document {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-12 * time.Second)
	session := func(id uint64, slot string, h relay.StreamHold) relay.SessionStatus {
		h.Slot = slot
		return relay.SessionStatus{
			ID: id, Kind: relay.KindLogical, State: "copy", ApplicationName: slot, Downstream: "10.0.0.7:1", Started: now, Position: 0x300,
			HoldBack: &h,
		}
	}
	creation := session(5, "pg_1_sync_2_3", relay.StreamHold{State: "held", WaitsFor: 0x390, Since: &now, Reason: relay.HoldBehind, By: []string{"s1"}, Creates: true})
	creation.State, creation.Position = "busy", 0
	d := statusdoc.Document{
		Version: "v1", Command: "relay", Host: "db1", Time: now, Started: now,
		Relay: &relay.Status{
			Mode: relay.ModeSplice, Listen: []string{":6432"}, Upstream: []string{"db1:5432"}, Accepted: 3,
			HoldBack: &relay.HoldBackStatus{
				Standbys: "ANY 1 (s1, s2)", Known: true, Position: 0x300,
				Connected: []relay.Standby{
					{ApplicationName: "s1", Flush: 0x300, Streaming: true, Relayed: true}, {Slot: "phys", Flush: 0x100}, {Flush: 0x200, Streaming: true},
				},
				Slots: []relay.HoldSlot{
					{Name: "orders", Consumer: relay.ConsumerRelay}, {Name: "audit", Consumer: relay.ConsumerWalsender, Ahead: 0x200},
					{Name: "polled", Consumer: relay.ConsumerSQL}, {Name: "free", Exempt: true},
				},
			},
			Sessions: []relay.SessionStatus{
				session(2, "orders", relay.StreamHold{State: "held", WaitsFor: 0x380, Since: &since, Reason: relay.HoldBehind, By: []string{"s1", "s2"}}),
				session(3, "free", relay.StreamHold{State: "exempt", Reason: relay.HoldExempt}),
				session(4, "pooled", relay.StreamHold{State: "held", WaitsFor: 0x380, Since: &since, Reason: relay.HoldUnlisted, Hint: relay.HoldUnlisted.Hint()}),
				creation,
			},
		},
	}
	d.Judge()
	return d
}

func TestStatusOfHoldBack(t *testing.T) {
	got := execute(t, nil, "", "status", "--url", serveDocument(t, relayDocument()))
	const want = `hold-back behind ANY 1 (s1, s2): flushed 0/300
standby s1, flushed 0/300, streaming
standby phys, flushed 0/100, catching up
standby without a name that the role may see, flushed 0/200, streaming
SESSION  SLOT           HOLD-BACK            POSITION  WAITS FOR  HELD BY  REASON                HELD FOR
      2  orders         held                 0/300     0/380      s1, s2   standby_behind             12s
      3  free           exempt               0/300     -                   exempt
      4  pooled         held                 0/300     0/380               walsender_not_listed       12s
      5  pg_1_sync_2_3  held, being created  -         0/390      s1       standby_behind              0s
walsender_not_listed: pg_stat_replication of the server in --slots does not list the stream's walsender. A pooler between relay and server numbers sessions anew: let --upstream name the server itself, and --slots the same one.
not held back: slot audit is consumed by a connection that bypasses this relay, its consumer is ahead of the standbys by 512 B
not held back: slot polled is consumed by SQL functions, which cannot be held back
not held back: slot free is exempt
`
	if !strings.Contains(got.stdout, want) || got.status != exitOK {
		t.Errorf("status %d, stdout:\n%s", got.status, got.stdout)
	}
	checked := execute(t, nil, "", "check", "--url", serveDocument(t, relayDocument()))
	if !strings.Contains(checked.stdout, `hold-back of slot "audit"`) || strings.Count(checked.stdout, "FAIL") != 1 {
		t.Errorf("check: status %d, stdout:\n%s", checked.status, checked.stdout)
	}
	plugin := execute(t, nil, "", "check", "--nagios", "--url", serveDocument(t, relayDocument()))
	if !strings.Contains(plugin.stdout, `upstream hold-back of slot "audit" is walsender`) || plugin.status != nagiosCritical { // no helper was asked
		t.Errorf("check --nagios: status %d, stdout:\n%s", plugin.status, plugin.stdout)
	}
}

func TestStatusExitStatus(t *testing.T) {
	readyDocument := helperDocument()
	readyDocument.Helper.Slots = readyDocument.Helper.Slots[:1]
	readyDocument.Judge()
	ready, notReady, away := serveDocument(t, readyDocument), serveDocument(t, helperDocument()), freeAddr(t)
	wrong := httptest.NewServer(http.NotFoundHandler())
	defer wrong.Close()
	for _, test := range []struct {
		name string
		urls []string
		want int
	}{
		{"ready", []string{ready}, exitOK},
		{"not ready", []string{notReady}, exitFailed},
		{"away", []string{away}, exitUnreachable},
		{"all away", []string{away, away}, exitUnreachable},
		{"one of two away", []string{ready, away}, exitFailed},
		{"one of two not ready", []string{ready, notReady}, exitFailed},
		{"somebody else", []string{wrong.URL}, exitFailed},
	} {
		for _, json := range []bool{false, true} {
			args := []string{"status"}
			for _, url := range test.urls {
				args = append(args, "--url", url)
			}
			if json {
				args = append(args, "--json")
			}
			if got := execute(t, nil, "", args...); got.status != test.want {
				t.Errorf("%s: status %d, want %d\n%s%s", test.name, got.status, test.want, got.stdout, got.stderr)
			}
		}
		// A variable of the environment holds several, by commas.
		if got := execute(t, []string{"SLOTFERRY_URL=" + strings.Join(test.urls, ",")}, "", "status"); got.status != test.want {
			t.Errorf("%s, by environment: status %d, want %d", test.name, got.status, test.want)
		}
	}
}

func TestStatusJSON(t *testing.T) {
	url, away := serveDocument(t, helperDocument()), freeAddr(t)
	got := execute(t, nil, "", "status", "--json", "--url", url, "--url", away)
	var list []answer
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		t.Fatalf("%v in:\n%s", err, got.stdout)
	}
	if len(list) != 2 || list[0].Status == nil || len(list[0].Status.Helper.Slots) != 3 || list[0].Error != "" ||
		list[1].Status != nil || list[1].Error == "" {
		t.Errorf("got %+v", list)
	}
	if !strings.Contains(got.stderr, "slotferry: read status from http://"+away) || !strings.Contains(got.stderr, "hint: ") {
		t.Errorf("stderr is %q", got.stderr)
	}
}

// TestStatusWatch ends with the verdict of the last round.
func TestStatusWatch(t *testing.T) {
	url := serveDocument(t, helperDocument())
	d := &daemon{done: make(chan struct{})}
	d.cmd = commandLine(context.Background(), t, nil, "status", "--watch", "--json", "--every", "100ms", "--url", url)
	d.cmd.Stdout, d.cmd.Stderr = lockedWriter{&d.mu, &d.stdout}, lockedWriter{&d.mu, &d.stderr}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go d.wait()
	poll.Require(t, waitLong, "three rounds", func(context.Context) (bool, string) {
		out := d.output()
		return strings.Count(out, "\n") >= 3, out
	})
	if status := d.end(t, syscall.SIGINT); status != exitFailed {
		t.Errorf("exit status is %d: %s", status, d.log())
	}
	for line := range strings.Lines(d.output()) {
		if !strings.HasPrefix(line, "[{") || !strings.HasSuffix(line, "}]\n") {
			t.Errorf("not one line a round: %q", line)
		}
	}
}

// TestStatusOfSeveral puts what belongs to one cluster into one view: two standbys
// with their relay, and a process of another cluster.
func TestStatusOfSeveral(t *testing.T) {
	second := helperDocument()
	second.Host = "db3"
	second.Helper.Slots = second.Helper.Slots[:1]
	second.Judge()
	relayed := streamingRelay()
	other := helperDocument()
	other.Host, other.Helper.Standby.SystemIdentifier = "stranger", 7
	urls := []string{serveDocument(t, helperDocument()), serveDocument(t, other), serveDocument(t, second), serveDocument(t, relayed)}
	args := []string{"status"}
	for _, url := range urls {
		args = append(args, "--url", url)
	}
	got := execute(t, nil, "", args...)
	text := got.stdout
	for i, url := range urls {
		text = strings.ReplaceAll(text, strings.TrimPrefix(url, "http://"), fmt.Sprintf("U%d", i))
	}
	before, after, found := strings.Cut(text, "system identifier 7\n")
	if !found || got.status != exitFailed || strings.Count(before, "system identifier") != 1 || !strings.Contains(after, "stranger") {
		t.Errorf("status %d:\n%s", got.status, text)
	}
	for _, want := range []string{
		"helper   db2   http://U0/status  standby", "helper   db3   http://U2/status  standby", "relay    db1   http://U3/status  primary",
		"orders_sub  shop         pgoutput  db2", "orders_sub  shop         pgoutput  db3", "2 of 4 slots ready, 1 pending, 1 blocked", "SESSION",
	} {
		if strings.Count(before, want) != 1 {
			t.Errorf("not once: %q in:\n%s", want, before)
		}
	}
	if first := strings.Index(before, "orders_sub  shop         pgoutput  db2"); !strings.HasPrefix(strings.SplitN(before[first:], "\n", 2)[1], "orders_sub") {
		t.Errorf("rows of one slot are not together:\n%s", before)
	}
}

// streamingRelay is a document of a relay with one standby behind it.
func streamingRelay() statusdoc.Document {
	d := helperDocument()
	d.Command, d.Host, d.Helper = "relay", "db1", nil
	d.Relay = &relay.Status{
		Mode: relay.ModeSplice, Listen: []string{"0.0.0.0:6432"}, Upstream: []string{"db1:5432"}, Accepted: 4, Failed: 1,
		SlotSource: &relay.SlotSourceStatus{Connected: true, Upstream: "db1:5432", SystemIdentifier: 7523094288207667809, TimelineID: 3, Slots: 2,
			LastMessage: d.Time.Add(-time.Second), SnapshotError: "permission denied", SnapshotHint: "GRANT EXECUTE it."},
		Sessions: []relay.SessionStatus{{ID: 4, Kind: relay.KindPhysical, State: "streaming", ApplicationName: "db2", OptedIn: true, Started: d.Started,
			Position: 0x5000, HelperReport: &protocol.HelperReport{Slots: []protocol.SlotReport{{State: "ready"}, {State: "pending"}}}}},
	}
	d.Judge()
	return d
}

// TestStatusOfARelay shows sessions, and what their helpers say.
func TestStatusOfARelay(t *testing.T) {
	got := execute(t, nil, "", "status", "--url", serveDocument(t, streamingRelay()))
	for _, want := range []string{
		"primary         3", "relay on db1: reads 2 slots of db1:5432, last message 1s ago",
		"relay on db1: splice relay on 0.0.0.0:6432, upstream db1:5432, 4 connections accepted, 1 failed",
		"1 of 2 slots ready, 1 pending", "no standby snapshots, permission denied", "hint: GRANT EXECUTE it.",
	} {
		if got.status != exitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("status %d, no %q in:\n%s%s", got.status, want, got.stdout, got.stderr)
		}
	}
}

// TestStatusAfterPromotion shows what became of the slots.
func TestStatusAfterPromotion(t *testing.T) {
	d := helperDocument()
	d.Helper.Role, d.Helper.Slots = decoder.RolePrimary, nil
	d.Helper.Promotion = &decoder.PromotionReport{Time: d.Time, TimelineID: 4, SwitchLSN: 0x5000, Slots: []decoder.PromotionSlot{
		{Name: "a", Usable: true, Local: 0x4000, DuplicateBytes: 4096, Ahead: &decoder.SubscriberAhead{From: 0x5000, To: 0x6000}},
		{Name: "b", Reason: decoder.ReasonConsumedOnStandby, Error: "in use"},
	}}
	d.Judge()
	got := execute(t, nil, "", "status", "--url", serveDocument(t, d))
	for _, want := range []string{"promoted to timeline 4 at 0/5000", "subscriber is ahead, from 0/5000 to 0/6000", "consumed_on_standby in use", "helper on db2: not ready: helper: not_in_recovery"} {
		if got.status != exitFailed || !strings.Contains(got.stdout, want) {
			t.Errorf("status %d, no %q in:\n%s%s", got.status, want, got.stdout, got.stderr)
		}
	}
}

func TestReadinessOf(t *testing.T) {
	d := helperDocument()
	got, err := readinessOf(&d)
	if err != nil || len(got) != 3 || got["orders_sub"] != protocol.ReadinessReady || got["late_sub"] != protocol.ReadinessNotReady {
		t.Errorf("readiness is %v, %v", got, err)
	}
	d.Helper.Role = decoder.RolePrimary
	if got, err := readinessOf(&d); err != nil || got["orders_sub"] != protocol.ReadinessNotReady {
		t.Errorf("readiness on a primary is %v, %v", got, err)
	}
	d.Helper.Role, d.Time = decoder.RoleStandby, d.Time.Add(time.Hour)
	d.Judge()
	if got, err := readinessOf(&d); err == nil {
		t.Errorf("readiness of a stuck helper is %v", got)
	}
	d.Helper = nil
	if got, err := readinessOf(&d); err == nil {
		t.Errorf("readiness without a helper is %v", got)
	}
	client, err := statusdoc.NewClient(statusdoc.ClientFiles{})
	if err != nil {
		t.Fatal(err)
	}
	served := upstreamHelper{client, serveDocument(t, helperDocument())}
	if got, err := served.readiness(t.Context()); err != nil || got["orders_sub"] != protocol.ReadinessReady {
		t.Errorf("readiness over HTTP is %v, %v", got, err)
	}
}
