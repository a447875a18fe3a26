package statusserver

import (
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
)

// The bounds of what is remembered: an hour in steps of ten seconds, of at most
// so many slots. All of it is 600 kB.
const (
	historyStep  = 10 * time.Second
	historySteps = 360
	historySlots = 200
)

// noLag marks a step of which nothing is known.
const noLag = int64(-1)

// history is how far slots lagged, and whether the process was ready, within the
// last hour. It is a ring: step i of the clock is at i % historySteps.
type history struct {
	newest int64 // step of the clock; 0: none yet
	steps  [historySteps]moment
	slots  map[slotKey]*[historySteps]int64 // most bytes of lag in the step, or noLag
}

// moment is what is remembered of one step for all slots together.
type moment struct {
	seen     bool
	ready    bool    // throughout the step
	worst    int64   // most bytes that any slot lagged, or noLag
	worstOf  slotKey // which
	notReady int     // most slots that were not ready
}

// slotKey is what a slot has to be called by: names are unique in one server, and
// a slot may be made anew in another database.
type slotKey struct{ name, database string }

func (k slotKey) compare(o slotKey) int {
	if c := strings.Compare(k.name, o.name); c != 0 {
		return c
	}
	return strings.Compare(k.database, o.database)
}

// add takes in a document. Several in one step leave the worst of each.
func (h *history) add(d *statusdoc.Document) {
	now := d.Time.Unix() / int64(historyStep/time.Second)
	switch {
	case h.newest == 0 || now >= h.newest+historySteps || now < h.newest: // or the clock was set back
		h.reset(now)
	default:
		for h.newest < now {
			h.newest++
			h.clear(h.newest % historySteps)
		}
	}
	h.forget()
	at := now % historySteps
	m := &h.steps[at]
	m.ready = d.Ready && (m.ready || !m.seen)
	m.seen = true
	if d.Helper == nil {
		return
	}
	notReady := 0
	for i := range d.Helper.Slots {
		s := &d.Helper.Slots[i]
		if s.State != "ready" {
			notReady++
		}
		if s.Local == protocol.InvalidLSN {
			continue // it is not there: it has no lag
		}
		key := slotKey{s.Name, s.Database}
		lag := int64(min(s.Lag, 1<<62))
		if lag > m.worst {
			m.worst, m.worstOf = lag, key
		}
		if series := h.series(key); series != nil {
			series[at] = max(series[at], lag)
		}
	}
	m.notReady = max(m.notReady, notReady)
}

func (h *history) reset(now int64) {
	h.newest, h.slots = now, map[slotKey]*[historySteps]int64{}
	for i := range int64(historySteps) {
		h.clear(i)
	}
}

func (h *history) clear(at int64) {
	h.steps[at] = moment{worst: noLag}
	for _, s := range h.slots {
		s[at] = noLag
	}
}

// series returns the ring of a slot; nil when there are too many.
func (h *history) series(key slotKey) *[historySteps]int64 {
	s := h.slots[key]
	if s == nil && len(h.slots) < historySlots {
		s = new([historySteps]int64)
		for i := range s {
			s[i] = noLag
		}
		h.slots[key] = s
	}
	return s
}

// forget drops slots of which the last hour knows nothing.
func (h *history) forget() {
	for key, s := range h.slots {
		if !slices.ContainsFunc(s[:], func(lag int64) bool { return lag != noLag }) {
			delete(h.slots, key)
		}
	}
}

// since returns the ring as a line, oldest step first.
func since[T any](newest int64, ring *[historySteps]T) []T {
	at := (newest + 1) % historySteps
	return append(slices.Clone(ring[at:]), ring[:at]...)
}
