package statusserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slotferry/slotferry/internal/statusdoc"
)

// Bounds of one connection. All answers but live pages are small and made at once.
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

	// Access says who may ask, and whether over TLS. nil: everybody, in plain text.
	Access *Access
}

// Server answers status requests.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
	live     *live
}

// Listen opens the address. Run must be called afterwards, or Close.
func Listen(cfg Config) (*Server, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("open status address: %w", err)
	}
	page := &pageWriter{document: cfg.Document}
	s := &Server{cfg: cfg, listener: l, live: newLive(page)}
	s.http = &http.Server{
		Handler:           handler(&s.cfg, page, s.live),
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
	if cfg.Access.TLS() {
		s.http.TLSConfig = cfg.Access.config()
	}
	return s, nil
}

// Addr returns the address that Listen opened.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close gives the address back when Run was never called.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends. It then ends open requests and returns nil.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.live.run(ctx) })
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if s.http.Shutdown(ending) != nil {
			_ = s.http.Close() // who still waits for an answer is cut off
		}
	})
	err := s.serve()
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve status: %w", err)
}

func (s *Server) serve() error {
	if s.cfg.Access.TLS() {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}
