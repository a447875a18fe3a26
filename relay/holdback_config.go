package relay

import (
	"errors"
	"fmt"
	"path"
	"time"
)

// HoldBack says behind which standbys a Relay holds logical streams back.
type HoldBack struct {
	// Standbys must have flushed what a subscriber gets.
	Standbys *StandbyNames

	// Exempt are globs of slots whose streams are not held back.
	Exempt []string

	// Timeout is how long a stream is held for one position before it is let go,
	// until the standbys have caught up. 0 means for ever.
	Timeout time.Duration

	// Source reads the upstream's walsenders: its Walsenders must be set. Without what
	// it reads nothing passes.
	Source *SlotSource
}

// errTLSPassesThrough is about sessions that the relay cannot read, and so cannot
// hold back.
var errTLSPassesThrough = withHint(errors.New("hold-back needs sessions that the relay can read"),
	"End TLS at the relay with a certificate, or have it refuse TLS.")

// check returns all that is wrong.
func (h *HoldBack) check(c *Config) (errs []error) {
	if h.Standbys == nil {
		errs = append(errs, errors.New("hold-back: no standbys"))
	}
	for _, g := range h.Exempt {
		if _, err := path.Match(g, ""); err != nil {
			errs = append(errs, fmt.Errorf("hold-back: glob %q: %w", g, err))
		}
	}
	if h.Timeout < 0 {
		errs = append(errs, errors.New("hold-back: timeout is negative"))
	}
	if h.Source == nil || !h.Source.cfg.Walsenders {
		errs = append(errs, errors.New("hold-back: no slot source that reads walsenders"))
	}
	if c.Mode == ModeStrip {
		errs = append(errs, fmt.Errorf("mode %s holds no logical streams back", c.Mode))
	}
	if c.TLS == nil && !c.RefuseTLS {
		errs = append(errs, errTLSPassesThrough)
	}
	return errs
}

// SetHoldBack changes the standbys, the exempt slots and the timeout of a relay that
// holds logical streams back, for the streams that there are, too. The source stays.
func (r *Relay) SetHoldBack(h HoldBack) error {
	if r.hold == nil {
		return errors.New("this relay holds no logical streams back")
	}
	h.Source = r.cfg.HoldBack.Source
	if err := errors.Join(h.check(&r.cfg)...); err != nil {
		return err
	}
	r.hold.set(h)
	return nil
}
