package relay

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/slotferry/slotferry/internal/contain"
)

// Relay accepts replication connections and forwards each to the upstream, on
// a connection of its own. Nothing is pooled and nothing is reused.
type Relay struct {
	cfg     Config
	addrs   upstreamAddrs
	metrics *metrics
	hold    *holdHub // nil: no logical stream is held back

	probes chan probed // holds one; who takes it out probes

	panics contain.Panics // where pumps hand something to the other side, or take it from there

	strangers lineBudget // of the log
	entering  handshakes

	// mu guards what follows.
	mu        sync.Mutex
	listeners []net.Listener
	sessions  map[uint64]*session
	lastID    uint64
	accepted  uint64
	failed    uint64
	seen      seen
}

// New checks the configuration. Its error names everything that is wrong.
func New(cfg Config) (*Relay, error) {
	cfg, addrs, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Relay{cfg: cfg, addrs: addrs, sessions: map[uint64]*session{}, probes: make(chan probed, 1)}
	r.probes <- probed{}
	if cfg.HoldBack != nil {
		r.hold = newHoldHub(*cfg.HoldBack)
	}
	if r.metrics, err = newMetrics(r, cfg.Metrics); err != nil {
		return nil, err
	}
	return r, nil
}

// Listen opens the listen addresses. Run does it when nobody did before.
func (r *Relay) Listen() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	var opened []net.Listener
	for _, a := range r.cfg.Listen {
		l, err := Listen(a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		opened = append(opened, l)
	}
	if len(errs) > 0 {
		for _, l := range opened {
			_ = l.Close()
		}
		return errors.Join(errs...)
	}
	r.listeners = append(opened, r.cfg.Listeners...)
	return nil
}

// Addrs returns the addresses that Listen opened.
func (r *Relay) Addrs() []net.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]net.Addr, len(r.listeners))
	for i, l := range r.listeners {
		list[i] = l.Addr()
	}
	return list
}

// Run serves until ctx ends. It then stops accepting, ends every session with
// a sentence to the downstream, and returns when all goroutines have. Its
// error is nil when ctx ended it.
func (r *Relay) Run(ctx context.Context) error {
	if len(r.Addrs()) == 0 {
		if err := r.Listen(); err != nil {
			return err
		}
	}
	if r.hold != nil {
		defer r.cfg.HoldBack.Source.watchWalsenders(r.hold)()
	}
	r.mu.Lock()
	listeners := r.listeners
	r.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	})
	defer stop()
	var wg sync.WaitGroup
	for _, l := range listeners {
		r.cfg.Logger.Info().Str("listen", l.Addr().String()).Strs("upstream", r.addrs.strings()).
			Stringer("mode", r.cfg.Mode).Msg("relay is listening")
		wg.Go(func() { r.accept(ctx, l, &wg) })
	}
	wg.Wait()
	r.mu.Lock()
	r.listeners = nil
	r.mu.Unlock()
	return nil
}

// accept serves one listener until ctx ends. A failed Accept, for want of file
// descriptors most often, does not end it.
func (r *Relay) accept(ctx context.Context, l net.Listener, wg *sync.WaitGroup) {
	const longest = time.Second
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			if pause == 0 {
				r.cfg.Logger.Warn().Err(err).Str("listen", l.Addr().String()).Msg("could not accept a connection")
			}
			pause = min(max(2*pause, 5*time.Millisecond), longest)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		wg.Go(func() { r.serve(ctx, conn) })
	}
}

// serve runs one session from accept to close.
func (r *Relay) serve(ctx context.Context, conn net.Conn) {
	r.addrs.tune(conn)
	r.mu.Lock()
	r.lastID++
	r.accepted++
	s := &session{
		relay: r, id: r.lastID, started: time.Now(), downstream: newWire(conn),
		log: r.cfg.Logger.With().Uint64("session", r.lastID).Stringer("downstream", conn.RemoteAddr()).Logger(),
	}
	s.facts.kind = KindUnknown
	r.sessions[s.id] = s
	r.mu.Unlock()

	if rec := r.cfg.Recorder; rec != nil {
		s.downstream.record = func(dir Direction, b []byte) { rec.Record(s.id, dir, b) }
		rec.Opened(s.id, conn.RemoteAddr().String(), strings.Join(r.addrs.strings(), ","))
		defer rec.Closed(s.id)
	}
	err := s.run(ctx)

	r.mu.Lock()
	delete(r.sessions, s.id)
	if err != nil {
		r.failed++
	}
	r.mu.Unlock()
	s.logEnd(err)
}
