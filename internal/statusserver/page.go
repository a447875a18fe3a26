package statusserver

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"bytes": human.Bytes,
	"since": func(t, now time.Time) string { return human.Duration(now.Sub(t)) },
	"words": func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(pageText))

// pageData is a document with what a template cannot work out.
type pageData struct {
	statusdoc.Document
	Age string // of the newest slot message; "" when there is none
}

// page answers the page for people: one file, without script or outside asset.
func (c *Config) page(w http.ResponseWriter, _ *http.Request) {
	d := pageData{Document: c.Document()}
	if age := d.MessageAge(); age >= 0 {
		d.Age = human.Duration(max(time.Duration(age*float64(time.Second)), time.Millisecond))
	}
	var buf bytes.Buffer
	if err := pageTemplate.Execute(&buf, &d); err != nil {
		writeText(w, http.StatusInternalServerError, fmt.Sprintf("write page: %v\n", err))
		return
	}
	header(w, "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(buf.Bytes()) // who asked is gone
}
