package statusserver

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"
)

// The bounds of live pages.
const (
	liveInterval = time.Second      // between two looks at the document
	livePing     = 15 * time.Second // something is sent at least so often
	liveWrite    = 5 * time.Second  // who does not take an event in is dropped
	liveClients  = 32               // at the same time
)

// live keeps pages up to date. One goroutine, run's, writes the sections; each
// client is its request's own goroutine and takes the newest ones when it can. A
// slow client costs staleness, never memory.
type live struct {
	page *pageWriter
	wake chan struct{} // a client has come: do not wait for the next look

	mu      sync.Mutex
	newest  map[string]string // section by name
	changed chan struct{}     // closed when newest is not the newest any more
	clients int
	ended   bool
}

func newLive(page *pageWriter) *live {
	return &live{page: page, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

// run looks at the document until ctx ends, and ends all clients then.
func (l *live) run(ctx context.Context) {
	defer l.end()
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	for {
		d := l.page.look()
		if l.watched() {
			l.publish(l.page.sections(&d))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.wake:
		}
	}
}

func (l *live) watched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients > 0
}

// publish replaces the sections when they say something new.
func (l *live) publish(sections map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended && !maps.Equal(l.newest, sections) {
		l.newest = sections
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.changed)
}

// current returns the newest sections, and a channel that closes when there are
// newer ones. ok is false when there will be none.
func (l *live) current() (sections map[string]string, changed <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest, l.changed, !l.ended
}

// enter lets one more client in if there is room.
func (l *live) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.clients >= liveClients {
		return false
	}
	l.clients++
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
	return true
}

func (l *live) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients--
}

// ServeHTTP sends a client the sections that have changed, until it goes away or
// does not keep up.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.enter() {
		w.Header().Set("Retry-After", "10")
		writeText(w, http.StatusServiceUnavailable, "There are as many live pages as there may be; /status is not one of them.\n")
		return
	}
	defer l.leave()
	header(w, "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	c := &client{out: http.NewResponseController(w), w: w, has: map[string]string{}}
	_ = c.out.SetReadDeadline(time.Time{}) // that of the request would end it
	if r.Method == http.MethodHead {
		return
	}
	ping := time.NewTicker(livePing)
	defer ping.Stop()
	err := c.write(": welcome\n\n")
	for err == nil {
		sections, changed, ok := l.current()
		if !ok {
			return
		}
		if err = c.send(sections); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-ping.C:
			err = c.write("data: {}\n\n") // a comment would not be shown to the page
		}
	}
}

// client is one live page.
type client struct {
	out *http.ResponseController
	w   http.ResponseWriter
	has map[string]string // the sections it was sent
}

// send writes one event with the sections that the client does not have yet.
func (c *client) send(sections map[string]string) error {
	news := map[string]string{}
	for name, text := range sections {
		if c.has[name] != text {
			news[name] = text
		}
	}
	if len(news) == 0 {
		return nil
	}
	event, err := json.Marshal(news) // on one line, as an event wants it
	if err != nil {
		return err
	}
	maps.Copy(c.has, news)
	return c.write("data: " + string(event) + "\n\n")
}

func (c *client) write(text string) error {
	if err := c.out.SetWriteDeadline(time.Now().Add(liveWrite)); err != nil {
		return err
	}
	if _, err := c.w.Write([]byte(text)); err != nil {
		return err
	}
	return c.out.Flush()
}
