package contain

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// fades is how long there must have been no panic in a place until the same one is
// worth a line again. It is longer than any pause before a retry.
const fades = 5 * time.Minute

// Panics counts the panics that were contained in one part of the program, and logs
// each once as long as it goes on. The zero value is ready for use.
type Panics struct {
	count atomic.Uint64

	mu   sync.Mutex // last is shared by the goroutines in which something is contained
	last map[string]seen
}

// seen is the last panic in a place.
type seen struct {
	text string
	at   time.Time
}

// Do is the function Do; a panic is counted and logged. where is the place, for people.
func (p *Panics) Do(where string, log zerolog.Logger, f func() error) error {
	err := Do(f)
	var was *Panic
	if !errors.As(err, &was) {
		return err
	}
	p.count.Add(1)
	if p.news(where, was.Error(), time.Now()) {
		log.Error().Err(was).Str("where", where).Bytes("stack", was.Stack).Str("hint", Hint).Msg("panic contained: the rest goes on")
	}
	return err
}

// Count returns how many there were.
func (p *Panics) Count() uint64 { return p.count.Load() }

// news notes a panic, and reports whether it is another one than the last in its
// place, or the first for long.
func (p *Panics) news(where, text string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.last, func(_ string, s seen) bool { return now.Sub(s.at) >= fades })
	old := p.last[where]
	if p.last == nil {
		p.last = map[string]seen{}
	}
	p.last[where] = seen{text, now}
	return old.text != text
}
