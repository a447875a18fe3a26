package statusserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slotferry/slotferry/internal/statusdoc"
)

// handler answers requests.
func handler(cfg *Config, page *pageWriter, live *live) http.Handler {
	metrics := cfg.Metrics
	if metrics == nil {
		metrics = prometheus.NewRegistry()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", cfg.readyz)
	mux.HandleFunc("GET /status", cfg.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: metricsTimeout,
	}))
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /events", live)
	mux.HandleFunc("GET /assets/page.css", asset("page.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /assets/page.js", asset("page.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /assets/ready.svg", asset("ready.svg", "image/svg+xml"))
	mux.HandleFunc("GET /assets/not-ready.svg", asset("not-ready.svg", "image/svg+xml"))
	return cfg.Access.guard(mux)
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready    bool                 `json:"ready"`
	NotReady []statusdoc.NotReady `json:"not_ready"`
}

func (c *Config) readyz(w http.ResponseWriter, _ *http.Request) {
	d := c.Document()
	code := http.StatusOK
	if !d.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, readiness{d.Ready, d.NotReady})
}

func (c *Config) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, c.Document())
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		writeText(w, http.StatusInternalServerError, fmt.Sprintf("encode answer: %v\n", err))
		return
	}
	header(w, "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // who asked is gone
}

func writeText(w http.ResponseWriter, code int, text string) {
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // who asked is gone
}

func header(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
