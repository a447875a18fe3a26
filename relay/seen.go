package relay

import (
	"errors"
	"syscall"
	"time"
)

// seen is what the relay has logged and not taken back: each line is written
// once per change of state, not once per connection that the walreceiver makes
// every five seconds.
type seen struct {
	unreachable bool
	noRelay     bool
	damaged     time.Time // when the last frame that could not be read came; zero: it is long ago
	opaque      bool
	badReport   bool
	binding     bool
	leftAtOffer bool

	upstreamError *UpstreamError // nil: none since a stream began
	unreached     *UpstreamError // the last of those that say that nobody answered
	system        uint64         // the upstream's system identifier; 0: not known
}

// change sets a flag of seen, and reports whether it was different before.
func (r *Relay) change(flag *bool, to bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := *flag != to
	*flag = to
	return changed
}

// upstreamReached notes that the upstream has answered, or why it has not. That a
// connection was accepted is no answer.
func (r *Relay) upstreamReached(e *ending) {
	changed := r.change(&r.seen.unreachable, e != nil)
	if e != nil {
		r.sawUpstream(&UpstreamError{Code: e.code, Message: e.message, Hint: e.hint}, false)
	} else {
		r.forgetUnreached()
	}
	switch {
	case !changed:
	case e != nil:
		r.cfg.Logger.Error().Err(e.err).Str("hint", e.hint).Msg("upstream cannot be reached")
	default:
		r.cfg.Logger.Info().Msg("upstream can be reached again")
	}
}

// forgetUnreached takes back that the upstream could not be reached, and no other
// error. A relay without physical streams would show it for ever.
func (r *Relay) forgetUnreached() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen.upstreamError == r.seen.unreached {
		r.seen.upstreamError = nil
	}
	r.seen.unreached = nil
}

// sawUpstream notes why there is no stream, nil that there is one. What the
// upstream said itself, having answered, is logged when it is another thing than before.
func (r *Relay) sawUpstream(e *UpstreamError, answered bool) {
	r.mu.Lock()
	old := r.seen.upstreamError
	r.seen.upstreamError = e
	if !answered {
		r.seen.unreached = e
	}
	r.mu.Unlock()
	if r.cfg.Mode == ModeStrip && e != nil && e.Code != codeConnectionFailure && (old == nil || *old != *e) {
		r.cfg.Logger.Warn().Str("sqlstate", e.Code).Str("error", e.Message).Str("hint", e.Hint).
			Msg("the upstream refuses or ends the standby's session")
	}
}

// sawSystem notes the upstream's system identifier.
func (r *Relay) sawSystem(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.system = id
}

// sawNoRelay notes that the upstream did not know the marker.
func (r *Relay) sawNoRelay(addr upstreamAddr) {
	if r.change(&r.seen.noRelay, true) {
		r.cfg.Logger.Error().Stringer("upstream", addr).
			Str("hint", "Let the upstream conninfo point to the address of a slotferry relay in front of the primary.").
			Msg("no relay at this address: WAL is forwarded, but there will be no slot messages")
	}
}

// sawRelay notes that the marker was not refused.
func (r *Relay) sawRelay() {
	if r.change(&r.seen.noRelay, false) {
		r.cfg.Logger.Info().Msg("the upstream knows slot messages now")
	}
}

// sawTaken notes how a frame that was taken out could be decoded.
func (r *Relay) sawTaken(err error) {
	r.metrics.framesStripped.Add(1)
	if err != nil {
		r.metrics.framesDamaged.Add(1)
	}
	switch changed := r.sawDamage(err != nil, time.Now()); {
	case !changed:
	case err != nil:
		r.cfg.Logger.Error().Err(err).Str("hint", "Run the same version of slotferry on both sides.").
			Msg("slot messages or reports cannot be read; they are taken out of the stream all the same")
	default:
		r.cfg.Logger.Info().Msg("slot messages or reports can be read again")
	}
}

// damageFades is how long frames must have been readable until that is said:
// whoever sends good and bad ones in turn fills no log.
const damageFades = time.Minute

// sawDamage notes a frame that was taken out, and reports whether it is worth a
// line.
func (r *Relay) sawDamage(damaged bool, now time.Time) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.seen.damaged
	switch {
	case damaged:
		changed, *last = last.IsZero(), now
	case !last.IsZero() && now.Sub(*last) >= damageFades:
		changed, *last = true, time.Time{}
	}
	return changed
}

// sawOpaque notes an encrypted session where slot messages have their place.
func (r *Relay) sawOpaque() {
	if r.cfg.Mode != ModePlain && r.change(&r.seen.opaque, true) {
		r.cfg.Logger.Warn().
			Str("hint", "Use sslmode=disable and gssencmode=disable between helper and relay, or let the relay refuse TLS.").
			Msg("a session is encrypted end to end: it is forwarded, but carries no slot messages")
	}
}

// sawReport notes whether the helper's report could be encoded.
func (r *Relay) sawReport(err error) {
	if r.change(&r.seen.badReport, err != nil) && err != nil {
		r.cfg.Logger.Error().Err(err).Msg("the helper's report cannot be sent")
	}
}

// isReset reports whether a peer just went away.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// sawLeftAtOffer notes whether a client has ended its login at the offer of SCRAM.
func (r *Relay) sawLeftAtOffer(left bool) {
	if r.change(&r.seen.leftAtOffer, left) && left {
		r.cfg.Logger.Info().Str("hint", hintLeftAtOffer).Msg("a client ended its login when SCRAM without channel binding was offered")
	}
}

// sawBinding notes how channel binding stood when a login ended.
func (r *Relay) sawBinding(err error) {
	if r.change(&r.seen.binding, err != nil) && err != nil {
		r.cfg.Logger.Error().Err(err).Str("hint", hintBinding).Msg("a client cannot log in through this relay")
	}
}
