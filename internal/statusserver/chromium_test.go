package statusserver

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// waitLong bounds every wait for the browser, on a machine with much else to do.
const waitLong = time.Minute

// chromiumNeeded, in the environment, makes it an error that there is none.
const chromiumNeeded = "SLOTFERRY_TEST_CHROMIUM"

// findChromium returns the program, or skips the test, so loud that nobody takes
// it for a pass where one is needed.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const text = "NO CHROMIUM ON THIS MACHINE: nobody has looked at the page. Install the package chromium."
	if os.Getenv(chromiumNeeded) != "" {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}

// browser is one tab of a Chromium, and what went wrong in it.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	problems []string // console errors, exceptions, requests to somebody else
	requests []string
}

// open starts a Chromium for the test and lets it see nothing but one server.
func open(t *testing.T, server string) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(findChromium(t)), chromedp.NoSandbox, chromedp.WSURLReadTimeout(waitLong),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-component-update", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) { b.watch(event, server) }); err != nil {
		t.Fatal(err)
	}
	b.do(t, command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}))
	return b
}

// command is an action for a command of the protocol.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

func (b *browser) watch(event any, server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, fmt.Sprintf("console.%s", e.Type))
	case *log.EventEntryAdded:
		b.problems = append(b.problems, fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
		if !strings.HasPrefix(e.Request.URL, server+"/") {
			b.problems = append(b.problems, "asks somebody else: "+e.Request.URL)
		}
	}
}

func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLong)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitLong)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("evaluate %s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true in the page.
func (b *browser) until(t *testing.T, what, expression string) {
	t.Helper()
	poll.Require(t, waitLong, what, func(context.Context) (bool, string) {
		return eval[bool](t, b, expression), eval[string](t, b, "document.body.innerText")
	})
}

// clean checks that nothing went wrong so far.
func (b *browser) clean(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		t.Errorf("in the browser: %s", p)
	}
	if len(b.requests) < 4 { // page, style, script, events
		t.Errorf("requests were %q", b.requests)
	}
}

// shoot leaves a picture for people, where the environment says so.
func (b *browser) shoot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("SLOTFERRY_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// state is a document that the test changes while it is served.
type state struct {
	mu sync.Mutex
	d  statusdoc.Document
}

func (s *state) document() statusdoc.Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.d
	d.Time = time.Now().UTC()
	d.Judge()
	return d
}

func (s *state) change(f func(*statusdoc.Document)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.d.Helper != nil { // who has the old one must not see a change
		h := *s.d.Helper
		h.Slots = slices.Clone(h.Slots)
		s.d.Helper = &h
	}
	f(&s.d)
}

// hostile is what a database or an application may be called.
const hostile = `</code><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'"&`

// pleasant is a document as an operator would see it.
func pleasant() *state {
	now := time.Now()
	d := statusdoc.Document{
		Version: "v1.0.0", Command: "helper", Host: "db2", Started: now.Add(-26 * time.Hour), Upstream: "relay.example:6432", Standby: "127.0.0.1:5433",
		Helper: &decoder.Status{
			Role:     decoder.RoleStandby,
			Standby:  decoder.StandbyStatus{SystemIdentifier: 7523094288207667809, TimelineID: 3, ReplayLSN: 0x16B374D848},
			Upstream: decoder.UpstreamStatus{Fresh: true, MessageAge: 0.25, MessageSequence: 4711, TimelineID: 3, CaptureLSN: 0x16B374D900},
			Anchor:   decoder.AnchorStatus{Phase: "live", Position: 0x16B374D000},
			Slots: []decoder.SlotStatusJSON{
				{Name: "orders", Database: "shop", Plugin: "pgoutput", State: decoder.StateReady, Upstream: 0x16B374D810, Local: 0x16B374D000, Lag: 0x810, LagTime: 1.5, Since: now.Add(-25 * time.Hour)},
				{Name: "invoices_to_the_warehouse", Database: "shop", Plugin: "pgoutput", State: decoder.StateReady, Upstream: 0x16B374D810, Local: 0x16B374D000, Lag: 0x1100, LagTime: 4, Since: now.Add(-3 * time.Hour)},
				{Name: "late", Database: hostile, Plugin: "pgoutput", State: decoder.StatePending, Reason: decoder.ReasonSubscriberBehind,
					Detail: "16 MB to go", Hint: decoder.ReasonSubscriberBehind.Hint(), Upstream: 0x16A0000000, Since: now.Add(-12 * time.Minute)},
			},
		},
	}
	return &state{d: d}
}

// relayDocument is of a relay with a standby, a helper and a backup behind it.
func relayDocument() statusdoc.Document {
	now := time.Now()
	moment, long := now.Add(-3*time.Second), now.Add(-5*time.Minute)
	return statusdoc.Document{
		Version: "v1.0.0", Command: "relay", Host: "db1", Started: now.Add(-26 * time.Hour), Upstream: "127.0.0.1:5432",
		Relay: &relay.Status{
			Mode: relay.ModeSplice, Listen: []string{"0.0.0.0:6432"}, Upstream: []string{"127.0.0.1:5432"}, Accepted: 12, Failed: 1,
			HoldBack: &relay.HoldBackStatus{Standbys: "ANY 1 (db2, db3)", Known: true, Position: 0x16B374D848,
				Connected: []relay.Standby{{ApplicationName: "db2", Flush: 0x16B374D848, Streaming: true, Relayed: true}, {ApplicationName: "db3", Flush: 0x16A0000000}},
				Slots: []relay.HoldSlot{
					{Name: "orders", Consumer: relay.ConsumerRelay, PID: 1}, {Name: "pooled", Consumer: relay.ConsumerRelay, PID: 2},
					{Name: "audit", Consumer: relay.ConsumerWalsender, PID: 3, ConfirmedFlushLSN: 0x16B374F848, Ahead: 0x2000},
					{Name: "etl_exempt", Consumer: relay.ConsumerRelay, PID: 4, Exempt: true}, {Name: "unused"},
				}},
			SlotSource: &relay.SlotSourceStatus{Connected: true, Upstream: "127.0.0.1:5432", SystemIdentifier: 7523094288207667809, TimelineID: 3,
				Slots: 3, LastMessage: now},
			Sessions: []relay.SessionStatus{
				{ID: 1, Kind: relay.KindPhysical, State: "streaming", ApplicationName: "db2", User: "repl", Downstream: "10.0.0.2:40112", OptedIn: true,
					Started: now.Add(-20 * time.Hour), Position: 0x16B374D848, DownstreamTLS: "TLS 1.3", HelperReport: &protocol.HelperReport{
						Slots: []protocol.SlotReport{{Name: "a", State: "ready"}, {Name: "b", State: "pending"}}}},
				{ID: 2, Kind: relay.KindPhysical, State: "streaming", ApplicationName: "db3", User: "repl", Downstream: "10.0.0.3:51230",
					Started: now.Add(-2 * time.Hour), Position: 0x16B374D848},
				{ID: 4, Kind: relay.KindLogical, State: "copy", ApplicationName: "orders", User: "app", Downstream: "10.0.1.1:40001", Started: now.Add(-time.Hour),
					Position: 0x16B374D848, HoldBack: &relay.StreamHold{Slot: "orders", State: "held", WaitsFor: 0x16B374DA10, Since: &moment,
						Reason: relay.HoldBehind, By: []string{"db2", "db3"}}},
				{ID: 5, Kind: relay.KindLogical, State: "copy", ApplicationName: "pooled", User: "app", Downstream: "10.0.1.2:40001", Started: now.Add(-time.Hour),
					Position: 0x16B3740000, HoldBack: &relay.StreamHold{Slot: "pooled", State: "held", WaitsFor: 0x16B3740100, Since: &long,
						Reason: relay.HoldUnlisted, Hint: relay.HoldUnlisted.Hint()}},
				{ID: 6, Kind: relay.KindLogical, State: "copy", ApplicationName: hostile, User: "app", Downstream: "10.0.1.3:40001", Started: now.Add(-time.Hour),
					Position: 0x16B374D848, HoldBack: &relay.StreamHold{Slot: "etl_exempt", State: "exempt", Reason: relay.HoldExempt}},
				{ID: 7, Kind: relay.KindLogical, State: "copy", ApplicationName: "reports", User: "app", Downstream: "10.0.1.4:40001", Started: now.Add(-time.Hour),
					Position: 0x16B374D848, HoldBack: &relay.StreamHold{Slot: "reports", State: "passing"}},
				{ID: 3, Kind: relay.KindPhysical, State: "busy", ApplicationName: hostile, User: "backup", Downstream: "10.0.0.9:39000", Started: now},
			},
		},
	}
}

// remember gives the server an hour behind it.
func (s *state) remember(server *Server) {
	now, d := time.Now(), s.d
	for i := range 300 {
		past := d
		past.Time = now.Add(time.Duration(i-300) * historyStep)
		h := *d.Helper
		h.Slots = slices.Clone(h.Slots)
		h.Slots[0].Lag = uint64(20000 + (i*i*37)%9000 + max(0, 60-(i-150)*(i-150)/8)*1500)
		h.Slots[1].Lag = uint64(8000 + (i*53)%5000)
		past.Helper, past.Ready = &h, i < 60 || i > 75
		server.live.page.history.add(&past)
	}
}

// TestPageInChromium looks at the page as a person does.
func TestPageInChromium(t *testing.T) {
	t.Parallel()
	findChromium(t)
	shown := pleasant()
	r := run(t, Config{Document: shown.document}, shown.remember)
	b := open(t, r.url)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(r.url+"/"))
	b.until(t, "the page", `document.querySelectorAll("#slots tbody tr").length === 3`)
	b.shoot(t, "desktop")
	if title := eval[string](t, b, "document.title"); title != "NOT READY: slotferry helper on db2" {
		t.Errorf("title is %q", title)
	}

	// A slot becomes ready while somebody reads: the row stays, focus and an open
	// table too, and a screen reader is told once.
	eval[int](t, b, `document.querySelector("details").open = true; document.querySelector("footer a").focus();
		window.row = document.querySelector('tr[data-key^="late"]'); 0`)
	shown.change(func(d *statusdoc.Document) {
		s := &d.Helper.Slots[2]
		s.State, s.Reason, s.Detail, s.Hint, s.Local = decoder.StateReady, "", "", "", 0x16B374D000
	})
	b.until(t, "the change", `document.title === "ready: slotferry helper on db2"`)
	for what, expression := range map[string]string{
		"the row is the one it was":    `document.contains(window.row) && window.row.innerText.includes("ready")`,
		"the table is still open":      `document.querySelector("details").open`,
		"the focus is where it was":    `document.activeElement === document.querySelector("footer a")`,
		"the icon has changed":         `document.querySelector("link[rel=icon]").getAttribute("href") === "assets/ready.svg"`,
		"no name became markup":        `window.hacked === undefined && document.querySelectorAll("img, main script").length === 0`,
		"the name is there as it is":   `document.querySelector("#slots").textContent.includes("window.hacked=1")`,
		"nobody says it is lost":       `document.getElementById("link").hidden`,
		"there is one heading a part":  `[...document.querySelectorAll("main section")].every(s => s.offsetHeight === 0 || s.querySelectorAll("h2").length === 1)`,
		"every part has its name":      `[...document.querySelectorAll("main section")].every(s => s.offsetHeight === 0 || document.getElementById(s.getAttribute("aria-labelledby")))`,
		"the chart has lines and gaps": `document.querySelectorAll("#lag .plot path.line").length === 3 && document.querySelectorAll("#lag .plot .band").length >= 1`,
	} {
		if !eval[bool](t, b, expression) {
			t.Errorf("not true: %s", what)
		}
	}
	b.until(t, "the announcement", `document.getElementById("announce").textContent.includes("Safe to fail over: 3 of 3 slots ready")`)
	b.clean(t)
}

// TestPageOnAPhoneAtNight checks the narrow page and the dark one, by figures: no
// scrolling sideways, and enough contrast in both.
func TestPageOnAPhoneAtNight(t *testing.T) {
	t.Parallel()
	findChromium(t)
	shown := pleasant()
	r := run(t, Config{Document: shown.document}, shown.remember)
	b := open(t, r.url)
	for _, scheme := range []string{"light", "dark"} {
		b.do(t, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}),
			chromedp.EmulateViewport(1280, 900), chromedp.Navigate(r.url+"/"))
		b.until(t, "the page", `document.querySelectorAll("#slots tbody tr").length === 3`)
		dark := eval[bool](t, b, luminance+`luminance(getComputedStyle(document.body).backgroundColor) < 0.2`)
		if dark != (scheme == "dark") {
			t.Errorf("%s: the page is dark: %v", scheme, dark)
		}
		eval[bool](t, b, `document.querySelector("details").open = true`)
		if bad := eval[[]string](t, b, luminance+contrasts); len(bad) > 0 {
			t.Errorf("%s: too little contrast: %q", scheme, bad)
		}
		eval[bool](t, b, `document.querySelector("details").open = false`)
		b.shoot(t, "desktop-"+scheme)
		for _, width := range []int64{320, 390} {
			b.do(t, chromedp.EmulateViewport(width, 800, chromedp.EmulateMobile))
			if over := eval[int](t, b, sideways); over > 0 {
				t.Errorf("%s, %d wide: the page scrolls sideways by %d", scheme, width, over)
			}
			b.shoot(t, fmt.Sprintf("phone-%d-%s", width, scheme))
		}
	}
	shown.change(func(d *statusdoc.Document) { *d = relayDocument() })
	b.until(t, "the page of a relay", `document.querySelectorAll("#sessions tbody tr").length === 7 && document.getElementById("slots").offsetHeight === 0`)
	for _, width := range []int64{320, 800, 1280} {
		b.do(t, chromedp.EmulateViewport(width, 900))
		if over := eval[int](t, b, sideways); over > 0 {
			t.Errorf("a relay's page, %d wide, scrolls sideways by %d", width, over)
		}
		b.shoot(t, fmt.Sprintf("relay-%d", width))
	}
	b.clean(t)
}

// sideways is by how many pixels the page is wider than the window.
const sideways = `document.documentElement.scrollWidth - document.documentElement.clientWidth`

// luminance is that of WCAG 2.
const luminance = `function luminance(color) {
	const c = color.match(/[\d.]+/g).slice(0, 3).map(Number).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
	return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
}
`

// contrasts lists the texts whose contrast is below 4.5, what WCAG 2 AA asks for.
const contrasts = `[...document.querySelectorAll("body *")].filter(e =>
	[...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.offsetHeight > 1 && e.offsetWidth > 1).map(e => {
	let p = e;
	while (getComputedStyle(p).backgroundColor === "rgba(0, 0, 0, 0)") p = p.parentElement;
	const a = luminance(getComputedStyle(e).color), b = luminance(getComputedStyle(p).backgroundColor);
	const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	return ratio < 4.5 ? ratio.toFixed(2) + " " + e.textContent.trim().slice(0, 40) : "";
}).filter(s => s)`

// TestPageSaysThatItIsOld ends the server while the page is open, and starts
// another one at its address.
func TestPageSaysThatItIsOld(t *testing.T) {
	t.Parallel()
	findChromium(t)
	d := everything()
	first, err := Listen(Config{Listen: "127.0.0.1:0", Document: func() statusdoc.Document { return d }})
	if err != nil {
		t.Fatal(err)
	}
	end := runUntil(t, first)
	url := "http://" + first.Addr().String()
	b := open(t, url)
	b.do(t, chromedp.Navigate(url+"/"))
	b.until(t, "the page", `document.querySelectorAll("#slots tbody tr").length === 2`)
	end()
	b.until(t, "the page to say so", `document.getElementById("link").innerText.includes("No connection")`)
	again := everything()
	again.Host = "db3"
	second, err := Listen(Config{Listen: first.Addr().String(), Document: func() statusdoc.Document { return again }})
	if err != nil {
		t.Fatal(err)
	}
	defer runUntil(t, second)()
	b.until(t, "the page to be up to date", `document.getElementById("link").hidden && document.querySelector("h1").innerText.includes("db3")`)
}

// TestPageWithToken opens the page as a browser that was told the token, and as
// one that was not.
func TestPageWithToken(t *testing.T) {
	t.Parallel()
	findChromium(t)
	access := accessWithToken(t, "correct-horse-battery")
	r := run(t, Config{Document: everything, Access: access})
	b := open(t, r.url)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:correct-horse-battery"))
	b.do(t, command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": basic}}),
		chromedp.Navigate(r.url+"/"))
	b.until(t, "the page", `document.querySelectorAll("#slots tbody tr").length === 2 && document.getElementById("link").hidden`)
	b.clean(t)
}
