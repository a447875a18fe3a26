package statusserver

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
)

//go:embed web
var web embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"bytes": human.Bytes,
	"age":   age,
	"words": func(s any) string { return words(fmt.Sprint(s)) },
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"lsn":   lsn,
	"count": count,
	"lag":   lagTime,
}).ParseFS(web, "web/*.html"))

// policy lets the page have its own style and script, and ask this server for
// events; nothing else, and nothing of anybody else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// sectionNames are the parts of the page that change, in the order they are on it.
var sectionNames = []string{"summary", "topology", "slots", "hold-back", "lag", "promotion", "sessions"}

// maxRows bounds the tables: /status has the rest.
const maxRows = 200

// pageData is a document with what a template cannot work out.
type pageData struct {
	statusdoc.Document
	Now      time.Time
	System   uint64 // identifier; 0: not known
	Timeline uint32
	Nodes    []node
	Rows     []decoder.SlotStatusJSON // those that are not ready first
	Hidden   int                      // slots without a row
	Counts   statusdoc.Counts
	Chart    *chart
	NoNews   string // of slot messages, "" when they come
	HasSlots bool
	HoldBack *holdPage // nil: no stream is held back
}

// pageWriter writes the page, whole or in sections.
type pageWriter struct {
	document func() statusdoc.Document

	mu      sync.Mutex
	history history
}

// look reads the document and remembers it for the chart.
func (p *pageWriter) look() statusdoc.Document {
	d := p.document()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history.add(&d)
	return d
}

func (p *pageWriter) data(d *statusdoc.Document) *pageData {
	data := &pageData{Document: *d, Now: d.Time, Nodes: topology(d), HoldBack: hold(d)}
	data.System, data.Timeline = d.System()
	if d.Helper == nil {
		return data
	}
	p.mu.Lock()
	data.Chart = p.history.draw()
	p.mu.Unlock()
	data.HasSlots = len(d.Helper.Slots) > 0
	data.Rows = slices.Clone(d.Helper.Slots)
	slices.SortStableFunc(data.Rows, func(a, b decoder.SlotStatusJSON) int { return urgency(a.State) - urgency(b.State) })
	data.Rows = data.Rows[:min(len(data.Rows), maxRows)]
	data.Hidden = len(d.Helper.Slots) - len(data.Rows)
	data.Counts = d.CountSlots()
	if seconds := d.MessageAge(); seconds < 0 {
		data.NoNews = "No slot message has arrived yet."
	} else if !d.Helper.Upstream.Fresh {
		data.NoNews = "The last slot message is " + age(time.Duration(seconds*float64(time.Second))) + " old."
	}
	return data
}

func urgency(s decoder.State) int {
	return slices.Index([]decoder.State{decoder.StateBlocked, decoder.StatePending, decoder.StateReady}, s)
}

// sections writes the parts of the page.
func (p *pageWriter) sections(d *statusdoc.Document) map[string]string {
	data, sections := p.data(d), map[string]string{}
	for _, name := range sectionNames {
		var b strings.Builder
		if err := pageTemplate.ExecuteTemplate(&b, name, data); err != nil {
			b.Reset()
			b.WriteString("<p>This part cannot be written.</p>") // a template of ours; tests run each
		}
		sections[name] = b.String()
	}
	return sections
}

// ServeHTTP answers the whole page.
func (p *pageWriter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	d := p.look()
	var buf bytes.Buffer
	if err := pageTemplate.Execute(&buf, p.data(&d)); err != nil {
		writeText(w, http.StatusInternalServerError, fmt.Sprintf("write page: %v\n", err))
		return
	}
	header(w, "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = w.Write(buf.Bytes()) // who asked is gone
}

// asset answers one embedded file.
func asset(name, contentType string) http.HandlerFunc {
	body, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err) // it is compiled in
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		header(w, contentType)
		_, _ = w.Write(body) // who asked is gone
	}
}

// age writes a time span so that it does not change each second: a page that
// flickers is not read.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return count(int(d/time.Minute), "minute")
	}
	return human.Duration(d)
}

// lagTime writes how far a slot lags.
func lagTime(seconds float64) string {
	if seconds < 1 {
		return ""
	}
	return human.Duration(time.Duration(seconds * float64(time.Second)))
}

// lsn writes a position; a dash when there is none.
func lsn(l protocol.LSN) string {
	if l == protocol.InvalidLSN {
		return "–"
	}
	return l.String()
}
