package statusserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// events reads the events of one live page.
type events struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Scanner
}

func listen(t *testing.T, r *running) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	return &events{t, resp, in}
}

// next returns the sections of the next event; ok is false at the end.
func (e *events) next() (sections map[string]string, ok bool) {
	e.t.Helper()
	for e.in.Scan() {
		if data, isData := strings.CutPrefix(e.in.Text(), "data: "); isData {
			if err := json.Unmarshal([]byte(data), &sections); err != nil {
				e.t.Fatal(err)
			}
			return sections, true
		}
	}
	return nil, false
}

func clients(s *Server) int {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	return s.live.clients
}

// TestEvents checks that a page gets everything at first, then what has changed
// and nothing else.
func TestEvents(t *testing.T) {
	var ready atomic.Bool
	r := run(t, Config{Document: func() statusdoc.Document {
		d := everything()
		if ready.Load() {
			d.Helper.Slots[1].State, d.Helper.Slots[1].Reason = decoder.StateReady, ""
			d.Judge()
		}
		return d
	}})
	e := listen(t, r)
	first, _ := e.next()
	for _, name := range sectionNames {
		if _, there := first[name]; !there {
			t.Errorf("no section %s in the first event", name)
		}
	}
	if !strings.Contains(first["slots"], "subscriber behind") || strings.Contains(first["slots"], "<b>") {
		t.Errorf("slots are %s", first["slots"])
	}
	ready.Store(true)
	for seen := false; !seen; {
		then, ok := e.next()
		if !ok {
			t.Fatal("the events have ended")
		}
		if _, changed := then["sessions"]; changed {
			t.Error("sessions are sent again, and are what they were")
		}
		seen = strings.Contains(then["summary"], "2 of 2 slots ready")
	}
}

// TestEventsEndWithTheServer also checks that nobody is left behind.
func TestEventsEndWithTheServer(t *testing.T) {
	s, err := Listen(Config{Listen: "127.0.0.1:0", Document: everything})
	if err != nil {
		t.Fatal(err)
	}
	end := runUntil(t, s)
	r := &running{Server: s, url: "http://" + s.Addr().String(), client: &http.Client{Transport: &http.Transport{}}}
	e := listen(t, r)
	if _, ok := e.next(); !ok {
		t.Fatal("no event")
	}
	began := time.Now()
	end()
	if took := time.Since(began); took >= endTimeout {
		t.Errorf("it took %v: the page was cut off and not ended", took)
	}
	if _, ok := e.next(); ok || e.in.Err() != nil {
		t.Errorf("another event after the end, or %v", e.in.Err())
	}
	if n := clients(s); n != 0 {
		t.Errorf("%d clients are left", n)
	}
}

// TestNumberOfLivePagesIsBounded fills all places, and frees one.
func TestNumberOfLivePagesIsBounded(t *testing.T) {
	r := run(t, Config{Document: everything})
	var all []*events
	for range liveClients {
		all = append(all, listen(t, r))
	}
	resp, body := fetch(t, r, "GET", "/events")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "as many") {
		t.Errorf("one more: %s, %s", resp.Status, body)
	}
	if resp, _ := fetch(t, r, "GET", "/"); resp.StatusCode != http.StatusOK {
		t.Errorf("the page itself: %s", resp.Status)
	}
	all[0].resp.Body.Close()
	poll.Require(t, waitLong, "a place", func(context.Context) (bool, string) {
		return clients(r.Server) < liveClients, "none"
	})
	if _, ok := listen(t, r).next(); !ok {
		t.Error("the free place is of no use")
	}
}

// stuck is a client that takes nothing in any more after some writes: the next ends
// at its deadline.
type stuck struct {
	http.ResponseWriter
	takes    int
	deadline time.Time
	writes   int
}

func (s *stuck) SetReadDeadline(time.Time) error { return nil }
func (s *stuck) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *stuck) Write(b []byte) (int, error) {
	s.writes++
	if s.writes <= s.takes {
		return len(b), nil
	}
	return 0, &net.OpError{Op: "write", Err: errors.New("i/o timeout")}
}
func (s *stuck) Flush() {}

type plainHeader http.Header

func (p plainHeader) Header() http.Header       { return http.Header(p) }
func (p plainHeader) Write([]byte) (int, error) { return 0, nil }
func (p plainHeader) WriteHeader(int)           {}

// TestSlowPageIsDropped gives each write a deadline, and goes at its end: at the
// welcome, and at the first event behind it.
func TestSlowPageIsDropped(t *testing.T) {
	for takes := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), waitLong)
		defer cancel()
		l := newLive(&pageWriter{document: everything})
		l.publish(map[string]string{"slots": "a"})
		s := &stuck{ResponseWriter: plainHeader{}, takes: takes}
		req, err := http.NewRequestWithContext(ctx, "GET", "/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		l.ServeHTTP(s, req)
		if ctx.Err() != nil {
			t.Errorf("stuck after %d writes, and kept", takes)
		}
		if s.writes != takes+1 || time.Until(s.deadline) > liveWrite || l.clients != 0 {
			t.Errorf("stuck after %d: %d writes, deadline %v, %d clients left", takes, s.writes, s.deadline, l.clients)
		}
	}
}

// TestNewestSectionsReplaceTheOthers checks that a slow page gets what is, and not
// all that was.
func TestNewestSectionsReplaceTheOthers(t *testing.T) {
	l := newLive(&pageWriter{document: everything})
	_, changed, _ := l.current()
	for _, text := range []string{"a", "b", "c"} {
		l.publish(map[string]string{"slots": text})
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	sections, changed, ok := l.current()
	if sections["slots"] != "c" || !ok {
		t.Errorf("newest is %q", sections)
	}
	l.publish(map[string]string{"slots": "c"})
	select {
	case <-changed:
		t.Error("told of nothing new")
	default:
	}
}
