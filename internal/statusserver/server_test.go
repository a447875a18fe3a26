package statusserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/relay"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// everything is a document with all parts, and with text that wants to be
// something else.
func everything() statusdoc.Document {
	d := statusdoc.Document{
		Version: "v1", Command: "solo", Host: "db2", Time: now, Started: now.Add(-time.Hour),
		Relay: &relay.Status{
			Mode: relay.ModePlain, Listen: []string{"127.0.0.1:6433"}, Upstream: []string{"db1:5432"}, Accepted: 3,
			Sessions: []relay.SessionStatus{{ID: 7, Kind: relay.KindPhysical, State: "streaming", ApplicationName: `<script>alert("app")</script>`, Started: now}},
		},
		SlotSource: &relay.SlotSourceStatus{Connected: true, Slots: 2, LastMessage: now.Add(-2 * time.Second), Snapshots: 4, Panics: 5},
		Helper: &decoder.Status{
			Time: now, Role: decoder.RoleStandby,
			Standby:  decoder.StandbyStatus{SystemIdentifier: 7523094288207667809, TimelineID: 3, ReplayLSN: 0x5000},
			Upstream: decoder.UpstreamStatus{Fresh: true, MessageAge: 0.25, TimelineID: 3},
			Anchor:   decoder.AnchorStatus{Phase: "live", Position: 0x4000, Retained: 100 << 20},
			Slots: []decoder.SlotStatusJSON{
				{Name: "orders", Database: `<b>"shop"</b>`, Plugin: "pgoutput", State: decoder.StateReady, Upstream: 0x5000, Local: 0x4000, Lag: 0x1000, LagTime: 2.5, Since: now},
				{Name: "late", Database: "shop", State: decoder.StatePending, Reason: decoder.ReasonSubscriberBehind,
					Detail: "<img src=x onerror=alert(1)>", Hint: "wait & see", Missing: 12345, Ahead: 512, Since: now},
			},
			Steps:  []decoder.StepCount{{Step: "copy", Outcome: "done", Count: 2}},
			Panics: 6,
			Promotion: &decoder.PromotionReport{Time: now, TimelineID: 3, Slots: []decoder.PromotionSlot{
				{Name: "orders", Usable: true, Ahead: &decoder.SubscriberAhead{From: 1, To: 2}, Error: "<i>"},
			}},
		},
	}
	d.Judge()
	return d
}

// serve runs a server until the test ends.
func serve(t *testing.T, document func() statusdoc.Document) *running {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(document))
	return run(t, Config{Document: document, Metrics: registry})
}

// runUntil runs a server until the function it returns is called, or the test ends.
func runUntil(t *testing.T, s *Server) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// running is a server and a client that it lets in.
type running struct {
	*Server
	url    string
	client *http.Client
}

func run(t *testing.T, cfg Config, prepare ...func(*Server)) *running {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(s)
	}
	end := runUntil(t, s)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		end()
	})
	return &running{Server: s, url: "http://" + s.Addr().String(), client: &http.Client{Transport: transport}}
}

func fetch(t *testing.T, server *running, method, path string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, server.client, req)
}

func do(t *testing.T, client *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestPathsAndMethods(t *testing.T) {
	server := serve(t, everything)
	for _, test := range []struct {
		method, path string
		code         int
		contentType  string
	}{
		{"GET", "/livez", 200, "text/plain; charset=utf-8"},
		{"HEAD", "/livez", 200, "text/plain; charset=utf-8"},
		{"GET", "/readyz", 503, "application/json"},
		{"GET", "/status", 200, "application/json"},
		{"GET", "/metrics", 200, "text/plain; version=0.0.4"},
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/assets/page.css", 200, "text/css"},
		{"GET", "/assets/page.js", 200, "text/javascript"},
		{"GET", "/assets/ready.svg", 200, "image/svg+xml"},
		{"GET", "/assets/not-ready.svg", 200, "image/svg+xml"},
		{"GET", "/assets/", 404, "text/plain"},
		{"GET", "/web/page.html", 404, "text/plain"},
		{"HEAD", "/events", 200, "text/event-stream"},
		{"GET", "/nothing", 404, "text/plain"},
		{"POST", "/status", 405, "text/plain"},
		{"DELETE", "/", 405, "text/plain"},
	} {
		resp, _ := fetch(t, server, test.method, test.path)
		if resp.Header.Get("X-Content-Type-Options") == "" && test.code == 200 && test.path != "/metrics" {
			t.Errorf("%s %s: a browser may guess what it is", test.method, test.path)
		}
		if resp.StatusCode != test.code || !strings.HasPrefix(resp.Header.Get("Content-Type"), test.contentType) {
			t.Errorf("%s %s: %s, %s", test.method, test.path, resp.Status, resp.Header.Get("Content-Type"))
		}
	}
}

func TestReadyz(t *testing.T) {
	_, body := fetch(t, serve(t, everything), "GET", "/readyz")
	var got struct {
		Ready    bool                 `json:"ready"`
		NotReady []statusdoc.NotReady `json:"not_ready"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Ready || len(got.NotReady) != 1 || got.NotReady[0].Slot != "late" || got.NotReady[0].Reason != "subscriber_behind" {
		t.Errorf("readyz says %s", body)
	}
	ready := func() statusdoc.Document {
		d := everything()
		d.Helper.Slots = d.Helper.Slots[:1]
		d.Judge()
		return d
	}
	resp, body := fetch(t, serve(t, ready), "GET", "/readyz")
	if resp.StatusCode != 200 || !strings.Contains(body, `"not_ready": []`) {
		t.Errorf("readyz is %s: %s", resp.Status, body)
	}
}

// TestPageEscapes also checks that the page asks nobody else for anything.
func TestPageEscapes(t *testing.T) {
	resp, body := fetch(t, serve(t, everything), "GET", "/")
	for _, never := range []string{"<script>", "<img", "<b>", "<i>", "http://", "https://", "javascript:", "ZgotmplZ", "onerror=", "style="} {
		if strings.HasPrefix(never, "on") {
			never = "<img src=x " + never
		}
		if strings.Contains(body, never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, always := range []string{"&lt;script&gt;", "wait &amp; see", "subscriber behind", "orders", "late", "7523094288207667809",
		"Not ready: 1 of 2 slots ready, 1 pending", `aria-live="polite"`, "</html>", "4096 B"} {
		if !strings.Contains(body, always) {
			t.Errorf("the page does not have %q", always)
		}
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy is %q", csp)
	}
}

// TestPageOfEveryKindOfProcess runs the template through documents that lack
// parts.
func TestPageOfEveryKindOfProcess(t *testing.T) {
	for _, change := range []func(*statusdoc.Document){
		func(d *statusdoc.Document) { d.Helper = nil },
		func(d *statusdoc.Document) { d.Relay = nil },
		func(d *statusdoc.Document) { d.Relay, d.SlotSource = nil, nil },
		func(d *statusdoc.Document) { d.Helper, d.Relay, d.SlotSource = nil, nil, nil },
		func(d *statusdoc.Document) {
			d.Helper = &decoder.Status{Upstream: decoder.UpstreamStatus{MessageAge: -1}}
		},
		func(d *statusdoc.Document) { d.SlotSource = &relay.SlotSourceStatus{Error: "refused"} },
	} {
		resp, body := fetch(t, serve(t, func() statusdoc.Document {
			d := everything()
			change(&d)
			d.Judge()
			return d
		}), "GET", "/")
		if resp.StatusCode != 200 || !strings.Contains(body, "</html>\n") {
			t.Errorf("%s: %s", resp.Status, body)
		}
	}
}

func TestMetrics(t *testing.T) {
	_, body := fetch(t, serve(t, everything), "GET", "/metrics")
	for _, want := range []string{
		`slotferry_info{command="solo",version="v1"} 1`,
		"slotferry_ready 0",
		"slotferry_slot_source_connected 1",
		"slotferry_slot_source_message_age_seconds 2",
		"slotferry_slot_source_snapshots_total 4",
		"slotferry_slot_source_panics_total 5",
		"slotferry_helper_message_age_seconds 0.25",
		"slotferry_helper_standby 1",
		`slotferry_helper_role{role="primary"} 0`,
		`slotferry_helper_role{role="standby"} 1`,
		`slotferry_helper_slots{state="blocked"} 0`,
		`slotferry_helper_slots{state="pending"} 1`,
		`slotferry_helper_slots{state="ready"} 1`,
		`slotferry_helper_slot_ready{database="shop",slot="late"} 0`,
		`slotferry_helper_slot_reason{database="shop",reason="subscriber_behind",slot="late",state="pending"} 1`,
		`slotferry_helper_slot_missing_bytes{database="shop",slot="late"} 12345`,
		`slotferry_helper_slot_subscriber_ahead_bytes{database="shop",slot="late"} 512`,
		`slotferry_helper_slot_lag_bytes{database="<b>\"shop\"</b>",slot="orders"} 4096`,
		`slotferry_helper_slot_lag_seconds{database="<b>\"shop\"</b>",slot="orders"} 2.5`,
		`slotferry_helper_steps_total{outcome="done",step="copy"} 2`,
		"slotferry_helper_panics_total 6",
		"slotferry_helper_anchor_up 1",
		"slotferry_helper_anchor_retained_bytes 1.048576e+08",
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s in:\n%s", want, body)
		}
	}
	// A server that is away is not known to be what it was: alerts hang on it.
	for role, change := range map[string]func(*decoder.Status){
		"primary": func(h *decoder.Status) { h.Role, h.Reason = decoder.RolePrimary, decoder.ReasonNotInRecovery },
		"unknown": func(h *decoder.Status) { h.Role, h.Reason = decoder.RolePrimary, decoder.ReasonStandbyUnreachable },
	} {
		_, text := fetch(t, serve(t, func() statusdoc.Document {
			d := everything()
			change(d.Helper)
			return d
		}), "GET", "/metrics")
		if want := fmt.Sprintf("slotferry_helper_role{role=%q} 1\n", role); !strings.Contains(text, want) || strings.Count(text, "slotferry_helper_role{") != 3 {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// TestRunEndsWithContext also checks that the address is free again.
func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Listen(Config{Listen: "127.0.0.1:0", Document: everything})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	resp, err := http.Get("http://" + s.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
	again, err := Listen(Config{Listen: s.Addr().String(), Document: everything})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestListenSaysWhatIsTaken(t *testing.T) {
	s, err := Listen(Config{Listen: "127.0.0.1:0", Document: everything})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Listen(Config{Listen: s.Addr().String()}); err == nil || !strings.Contains(err.Error(), s.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
