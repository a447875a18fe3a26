package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// dial connects to the upstream: to only, or to the first host that answers.
// Its error is an *ending that names every address and cause.
func (s *session) dial(ctx context.Context, only *upstreamAddr) error {
	addrs := s.relay.addrs.addrs
	if only != nil {
		addrs = []upstreamAddr{*only}
	}
	var errs []error
	for _, a := range addrs {
		d := net.Dialer{Timeout: s.relay.cfg.ConnectTimeout, KeepAliveConfig: s.relay.addrs.keepalive}
		conn, err := d.DialContext(ctx, a.network, a.address)
		if err != nil {
			errs = append(errs, fmt.Errorf("upstream %s: %w", a, rootCause(err)))
			continue
		}
		s.relay.addrs.tune(conn)
		s.mu.Lock()
		s.upstream, s.facts.upstream = newWire(conn), a
		s.mu.Unlock()
		s.relay.upstreamReached(nil)
		return nil
	}
	causes := make([]string, len(errs))
	for i, err := range errs {
		causes[i] = err.Error()
	}
	e := &ending{
		code:    codeConnectionFailure,
		message: "slotferry could not connect to " + strings.Join(causes, "; "),
		hint:    "Check that the upstream server is running and accepts connections from this host.",
		err:     fmt.Errorf("connect: %w", errors.Join(errs...)),
	}
	if ctx.Err() == nil {
		s.relay.upstreamReached(e)
	}
	return e
}

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
		only = s.relay.issuer(&m)
	}
	if s.upstream == nil {
		if err := s.dial(ctx, only); err != nil {
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

// issuer returns the upstream whose session has the key, nil when none has.
func (r *Relay) issuer(m *protocol.CancelRequest) *upstreamAddr {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		s.mu.Lock()
		key, addr := s.facts.key, s.facts.upstream
		s.mu.Unlock()
		if key != nil && key.PID == m.PID && bytes.Equal(key.Key, m.Key) {
			return &addr
		}
	}
	return nil
}
