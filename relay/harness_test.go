package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

const waitTimeout = 30 * time.Second

// testLog collects log lines; a failed test shows them.
type testLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// runningRelay is a Relay whose Run has been started.
type runningRelay struct {
	*relay.Relay
	addr string
	log  *testLog
	stop func() // ends Run and waits for it
}

// startRelay runs a relay until the test ends. Listen may be empty.
func startRelay(t testing.TB, cfg relay.Config) *runningRelay {
	t.Helper()
	log := new(testLog)
	if len(cfg.Listen) == 0 {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	cfg.Logger = zerolog.New(log).With().Timestamp().Logger()
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	running := &runningRelay{Relay: r, addr: r.Addrs()[0].String(), log: log}
	running.stop = runUntilDone(t, fmt.Sprintf("%s relay", cfg.Mode), log, r.Run)
	return running
}

// runUntilDone runs f in a goroutine until the test ends or stop is called.
func runUntilDone(t testing.TB, what string, log *testLog, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}()
	stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(waitTimeout):
			t.Errorf("%s does not end", what)
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", what, log)
		}
	})
	return stop
}

// startSource runs a slot source on a server until the test ends.
func startSource(t testing.TB, s *cluster.Server, cfg relay.SlotSourceConfig) *relay.SlotSource {
	t.Helper()
	log := new(testLog)
	if cfg.Conninfo == "" {
		cfg.Conninfo = s.Conninfo("postgres")
	}
	cfg.Logger = zerolog.New(log).With().Timestamp().Logger()
	source, err := relay.NewSlotSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runUntilDone(t, "slot source", log, source.Run)
	return source
}

// sink keeps what was delivered.
type sink struct {
	mu   sync.Mutex
	list []*protocol.SlotMessage
}

func (s *sink) Deliver(m *protocol.SlotMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, m)
}

func (s *sink) newest() (m *protocol.SlotMessage, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil, 0
	}
	return s.list[len(s.list)-1], len(s.list)
}

// wait waits until the newest message satisfies ok.
func (s *sink) wait(t testing.TB, what string, ok func(*protocol.SlotMessage) bool) *protocol.SlotMessage {
	t.Helper()
	var found *protocol.SlotMessage
	require(t, "slot message with "+what, func(context.Context) (bool, string) {
		m, n := s.newest()
		if m != nil && ok(m) {
			found = m
			return true, ""
		}
		return false, fmt.Sprintf("%d messages, newest %+v", n, m)
	})
	return found
}

func require(t testing.TB, what string, check func(context.Context) (bool, string)) {
	t.Helper()
	poll.Require(t, waitTimeout, what, check)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reports is a ReportSource that a test sets.
type reports struct {
	mu      sync.Mutex
	report  *protocol.HelperReport
	changed chan struct{}
}

func newReports() *reports { return &reports{changed: make(chan struct{})} }

func (r *reports) Report() (*protocol.HelperReport, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report, r.changed
}

func (r *reports) set(m *protocol.HelperReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = m
	close(r.changed)
	r.changed = make(chan struct{})
}

// pgError returns the server's error in err, nil when there is none.
func pgError(err error) *pgconn.PgError {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe
	}
	return nil
}
