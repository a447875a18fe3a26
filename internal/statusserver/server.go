// Package statusserver answers over HTTP what a slotferry process is doing:
//
//	/livez    200 while the process serves
//	/readyz   200 when it is ready, 503 and the reasons when it is not
//	/status   the status document, see package statusdoc
//	/metrics  Prometheus metrics
//	/         the same for people
//
// It answers GET and HEAD, changes nothing, and holds no secret. It has no
// password of its own, so it belongs on a loopback address.
package statusserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slotferry/slotferry/internal/statusdoc"
)

// Bounds of one connection. All answers are small and made at once.
const (
	readTimeout    = 5 * time.Second
	writeTimeout   = 15 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeader      = 16 << 10
	endTimeout     = 2 * time.Second
	metricsTimeout = 10 * time.Second
)

// Config is what a Server needs.
type Config struct {
	// Listen is one TCP address, "host:port".
	Listen string

	// Document returns the state at this moment, judged. It is called from many
	// goroutines and must not block.
	Document func() statusdoc.Document

	// Metrics is what /metrics shows. nil: nothing.
	Metrics prometheus.Gatherer
}

// Server answers status requests.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
}

// Listen opens the address. Run must be called afterwards, or Close.
func Listen(cfg Config) (*Server, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("open status address: %w", err)
	}
	return &Server{cfg: cfg, listener: l, http: &http.Server{
		Handler:           Handler(cfg),
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}}, nil
}

// Addr returns the address that Listen opened.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close gives the address back when Run was never called.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends. It then ends open requests and returns nil.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if s.http.Shutdown(ending) != nil {
			_ = s.http.Close() // who still waits for an answer is cut off
		}
	})
	err := s.http.Serve(s.listener)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve status: %w", err)
}

// Handler returns what answers requests, without an address of its own.
func Handler(cfg Config) http.Handler {
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", cfg.readyz)
	mux.HandleFunc("GET /status", cfg.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: metricsTimeout,
	}))
	mux.HandleFunc("GET /{$}", cfg.page)
	return mux
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
}
