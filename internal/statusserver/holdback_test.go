package statusserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/relay"
)

// TestHoldPage checks who has a row, in which order, and how it is called.
func TestHoldPage(t *testing.T) {
	d := relayDocument()
	d.Relay.Sessions = append(d.Relay.Sessions, relay.SessionStatus{Kind: relay.KindLogical, State: "busy", HoldBack: &relay.StreamHold{
		Slot: "pg_1_sync_2_3", State: "held", Creates: true, WaitsFor: 0x16B374DA20, Reason: relay.HoldBehind, By: []string{"db2"}}})
	p := hold(&d)
	var got []string
	for i := range p.Rows {
		r := &p.Rows[i]
		got = append(got, fmt.Sprintf("%s %s %s at %v waits %v behind %q %s", r.Level, r.Slot, r.State, r.Shown, r.WaitsFor, r.By, r.Reason))
	}
	want := []string{
		`blocked pooled held at 16/B3740000 waits 16/B3740100 behind "" walsender_not_listed`,
		`blocked audit not held back at 16/B374F848 waits 0/0 behind "" `,
		`pending orders held at 16/B374D848 waits 16/B374DA10 behind "db2, db3" standby_behind`,
		`pending pg_1_sync_2_3 held, being created at 0/0 waits 16/B374DA20 behind "db2" standby_behind`,
		`ready etl_exempt exempt at 16/B374D848 waits 0/0 behind "" `,
		`ready reports passing at 16/B374D848 waits 0/0 behind "" `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := "What they have flushed passes, up to 16/B374D848."; p.Position != want || !p.Good {
		t.Errorf("%q, good %v, want %q", p.Position, p.Good, want)
	}
	d.Relay.HoldBack.Position = 0
	if p := hold(&d); p.Good || !strings.Contains(p.Position, "nothing passes") {
		t.Errorf("without standbys: %q, good %v", p.Position, p.Good)
	}
	d.Relay.HoldBack.Known = false
	if p := hold(&d); p.Good || !strings.Contains(p.Position, "not been read") {
		t.Errorf("before anything is known: %q, good %v", p.Position, p.Good)
	}
	d.Relay.Sessions = slices.Repeat(d.Relay.Sessions, 100)
	if p := hold(&d); len(p.Rows) != maxRows || p.Hidden == 0 {
		t.Errorf("%d rows, %d hidden", len(p.Rows), p.Hidden)
	}
	d.Relay.HoldBack = nil
	if p := hold(&d); p != nil {
		t.Errorf("without hold-back: %+v", p)
	}
}

// TestHoldBackInChromium looks at a relay's page while a stream that is held goes
// on.
func TestHoldBackInChromium(t *testing.T) {
	t.Parallel()
	findChromium(t)
	shown := &state{d: relayDocument()}
	r := run(t, Config{Document: shown.document})
	b := open(t, r.url)
	for _, scheme := range []string{"light", "dark"} {
		b.do(t, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}),
			chromedp.EmulateViewport(1280, 900), chromedp.Navigate(r.url+"/"))
		b.until(t, "the page", `document.querySelectorAll("#hold-back tbody tr").length === 5`)
		if bad := eval[[]string](t, b, luminance+contrasts); len(bad) > 0 {
			t.Errorf("%s: too little contrast: %q", scheme, bad)
		}
		for _, width := range []int64{320, 1280} {
			b.do(t, chromedp.EmulateViewport(width, 900))
			if over := eval[int](t, b, sideways); over > 0 {
				t.Errorf("%s, %d wide: the page scrolls sideways by %d", scheme, width, over)
			}
			b.shoot(t, fmt.Sprintf("hold-back-%d-%s", width, scheme))
		}
	}
	eval[int](t, b, `window.row = document.querySelector('#hold-back tr[data-key^="stream orders"]'); 0`)
	shown.change(func(d *statusdoc.Document) {
		*d = relayDocument()
		for i := range d.Relay.Sessions {
			if h := d.Relay.Sessions[i].HoldBack; h != nil && h.Slot == "orders" {
				d.Relay.Sessions[i].Position, *h = h.WaitsFor, relay.StreamHold{Slot: "orders", State: "passing"}
			}
		}
	})
	b.until(t, "the stream to go on", `document.contains(window.row) && window.row.innerText.includes("passing")`)
	for what, expression := range map[string]string{
		"its position is the new one":         `window.row.innerText.includes("16/B374DA10") && !window.row.innerText.includes("db3")`,
		"who bypasses the relay is named":     `document.querySelector('#hold-back tr[data-key="slot audit"]').innerText.includes("bypasses this relay")`,
		"and how far it is ahead":             `document.querySelector('#hold-back tr[data-key="slot audit"]').innerText.includes("ahead by 8192 B")`,
		"what to do is said":                  `document.querySelector('#hold-back tr[data-key^="stream pooled"]').innerText.includes("pooler")`,
		"a slot that nobody uses has no row":  `!document.querySelector("#hold-back").textContent.includes("unused")`,
		"no name became markup":               `window.hacked === undefined && document.querySelectorAll("img, main script").length === 0`,
		"the standbys are listed":             `document.querySelectorAll("#hold-back .standbys li").length === 2`,
		"every part on the page has its name": `[...document.querySelectorAll("main section")].every(s => s.offsetHeight === 0 || document.getElementById(s.getAttribute("aria-labelledby")))`,
	} {
		if !eval[bool](t, b, expression) {
			t.Errorf("not true: %s, in\n%s", what, eval[string](t, b, `document.querySelector("#hold-back").innerText`))
		}
	}
	b.clean(t)
}
