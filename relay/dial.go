package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// dial connects to the upstream: to only, or to the first host that answers.
// bare leaves the connection as it is, for the downstream to ask for
// encryption itself; otherwise the conninfo's sslmode decides. Its error is an
// *ending that names every address and cause.
func (s *session) dial(ctx context.Context, only *upstreamAddr, bare bool) error {
	hosts, err := s.relay.hostsFor(ctx, only)
	if err != nil {
		return s.unreachable(ctx, []error{err})
	}
	var errs []error
	for _, h := range hosts {
		ways := h.ways
		if bare {
			ways = []*tls.Config{nil}
		}
		if err := s.dialHost(ctx, h, ways); err != nil {
			errs = append(errs, fmt.Errorf("upstream %s: %w", h, err))
			continue
		}
		return nil
	}
	return s.unreachable(ctx, errs)
}

// unreachable makes one *ending of why no host could be connected to. The
// downstream, which has not logged in, is told the brief causes.
func (s *session) unreachable(ctx context.Context, errs []error) error {
	causes := make([]string, len(errs))
	hint := "Check that the upstream server is running and accepts connections from this host."
	for i, err := range errs {
		causes[i] = brief(err)
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			hint = h.Hint()
		}
	}
	e := &ending{
		code:    codeConnectionFailure,
		message: "slotferry could not connect to " + strings.Join(causes, "; "),
		hint:    hint,
		err:     fmt.Errorf("connect: %w", errors.Join(errs...)),
	}
	if ctx.Err() == nil {
		s.relay.upstreamReached(e)
	}
	return e
}

// dialHost tries the ways of one host and keeps those that are left for a login
// that the server refuses.
func (s *session) dialHost(ctx context.Context, h upstreamHost, ways []*tls.Config) error {
	var errs []error
	for i, way := range ways {
		left := ways[i+1:]
		w, err := s.dialWay(ctx, h, way, slices.Contains(left, nil))
		if err != nil {
			errs = append(errs, err)
			var nobody *dialError
			if errors.As(err, &nobody) {
				break // another way leads to the same
			}
			continue
		}
		if way != nil && w.tls == nil { // the server has no TLS: that was the other way
			left = nil
		}
		s.mu.Lock()
		s.upstream, s.facts.upstream, s.waysLeft = w, h, left
		s.mu.Unlock()
		return nil
	}
	return errors.Join(errs...)
}

// dialWay makes one connection. plainToo allows one without encryption where
// the server has none, as sslmode=prefer does.
func (s *session) dialWay(ctx context.Context, h upstreamHost, way *tls.Config, plainToo bool) (*wire, error) {
	addrs := &s.relay.addrs
	d := net.Dialer{Timeout: s.relay.cfg.ConnectTimeout, KeepAliveConfig: addrs.keepalive}
	conn, err := d.DialContext(ctx, h.network, h.address)
	if err != nil {
		return nil, &dialError{rootCause(err)}
	}
	addrs.tune(conn)
	w := newWire(conn)
	if way == nil {
		return w, nil
	}
	secured, err := secureUpstream(ctx, w, way, addrs.direct, s.relay.cfg.ConnectTimeout)
	switch {
	case err != nil:
		w.close()
		return nil, err
	case secured != nil:
		return secured, nil
	case plainToo:
		return w, nil
	}
	w.close()
	return nil, errNoTLS
}

// dialError is a dial that reached nobody.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// rootCause drops what net repeats of the address.
func rootCause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// forwardCancel passes a CancelRequest on to the server that issued the key,
// and ends when that has closed the connection, as a server does.
func (s *session) forwardCancel(ctx context.Context, packet []byte) error {
	s.mu.Lock()
	s.facts.kind = KindCancel
	s.mu.Unlock()
	var only *upstreamAddr
	var m protocol.CancelRequest
	if m.Decode(packet) == nil {
		var of *session
		only, of = s.relay.issuer(&m)
		if of != nil && of.held != nil {
			defer of.held.cancel() // when the server has heard it
		}
	}
	if s.upstream != nil && only != nil && s.facts.upstream.upstreamAddr != *only {
		// It asked for encryption first, and that was answered by another host.
		s.upstream.close()
		s.mu.Lock()
		s.upstream = nil
		s.mu.Unlock()
	}
	if s.upstream == nil {
		if err := s.dial(ctx, only, false); err != nil {
			return errors.Unwrap(err) // the peer expects no answer
		}
	}
	if err := s.upstream.write(packet); err != nil {
		return fmt.Errorf("forward CancelRequest: %w", err)
	}
	stop := context.AfterFunc(ctx, s.upstream.close)
	defer stop()
	_ = s.upstream.conn.SetReadDeadline(time.Now().Add(s.relay.cfg.ConnectTimeout))
	var rest [64]byte
	for {
		if _, err := s.upstream.conn.Read(rest[:]); err != nil {
			return nil
		}
	}
}

// issuer returns the upstream whose session has the key, and the session; nil when
// none has.
func (r *Relay) issuer(m *protocol.CancelRequest) (*upstreamAddr, *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		s.mu.Lock()
		key, addr := s.facts.key, s.facts.upstream.upstreamAddr
		s.mu.Unlock()
		if key != nil && key.PID == m.PID && bytes.Equal(key.Key, m.Key) {
			return &addr, s
		}
	}
	return nil, nil
}
