package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// errNoTLS is what libpq says of a server that answers SSLRequest with 'N'.
var errNoTLS = withHint(errors.New("server does not support SSL, but SSL was required"),
	"Set ssl=on there, or sslmode=prefer or disable in the upstream conninfo.")

// secureUpstream begins TLS on a connection to the upstream. secured is nil
// where the server has no TLS; the connection then goes on without.
func secureUpstream(ctx context.Context, w *wire, way *tls.Config, direct bool, timeout time.Duration) (
	secured *wire, err error,
) {
	_ = w.conn.SetDeadline(time.Now().Add(timeout))
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(aLongTimeAgo) })
	defer func() {
		stop()
		_ = w.conn.SetDeadline(time.Time{})
	}()
	if !direct {
		yes, err := askForTLS(w)
		if err != nil || !yes {
			return nil, err
		}
	}
	secured = tlsWire(w, nil, func(c net.Conn) *tls.Conn { return tls.Client(c, way) })
	if err := secured.shake(); err != nil {
		return nil, tlsError(err, direct)
	}
	if direct && secured.tls.ConnectionState().NegotiatedProtocol != alpnPostgres {
		return nil, withHint(errors.New("direct SSL connection was established without ALPN protocol negotiation extension"),
			hintDirect)
	}
	return secured, nil
}

// alpnPostgres is the protocol's name in TLS (PG_ALPN_PROTOCOL, pqcomm.h).
const alpnPostgres = "postgresql"

const hintDirect = "sslnegotiation=direct needs PostgreSQL 17 or later, or a relay with a certificate. " +
	"Take it out of the upstream conninfo."

// askForTLS sends SSLRequest and reads the one byte that answers it.
func askForTLS(w *wire) (yes bool, err error) {
	if err := w.write(protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)); err != nil {
		return false, fmt.Errorf("ask for encryption: %w", rootCause(err))
	}
	var answer [1]byte
	if _, err := io.ReadFull(w.conn, answer[:]); err != nil {
		return false, fmt.Errorf("read the answer to SSLRequest: %w", rootCause(err))
	}
	switch answer[0] {
	case 'S':
		return true, nil
	case 'N':
		return false, nil
	case protocol.FrameErrorResponse:
		// Nobody has shown yet who they are, so its text is not repeated
		// (CVE-2024-10977).
		return false, errors.New("server sent an error response during SSL exchange")
	default:
		return false, endFault(errNotPostgres)
	}
}

// tlsError names a failed handshake, and what to change.
func tlsError(err error, direct bool) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	hint := "See the upstream's log."
	switch {
	case errors.As(err, &unknown):
		hint = "Name the certificate authority that signed the upstream's certificate by sslrootcert."
	case errors.As(err, &name):
		hint = "sslmode=verify-full needs the name in host to be one of the certificate's; verify-ca does not."
	case errors.As(err, &invalid):
		hint = "The upstream's certificate is not valid now or not for this: renew it there."
	case isAlert(err):
		hint = hintAlert
	case direct:
		hint = hintDirect
	}
	return withHint(fmt.Errorf("TLS: %w", rootCause(err)), hint)
}

const hintAlert = "The upstream refuses this relay's TLS, most often for its client certificate: " +
	"see sslcert and sslkey in the upstream conninfo, and the upstream's log."

// isAlert reports whether the peer ended TLS with an alert.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// secureBare does for a connection that was made for the downstream to encrypt,
// and that it then did not, what sslmode asks for. refused says that the server
// has answered SSLRequest with 'N' already.
func (s *session) secureBare(ctx context.Context, refused bool) error {
	h := s.facts.upstream
	first, plainToo := h.ways[0], len(h.ways) > 1
	switch {
	case first == nil:
		return nil
	case s.relay.addrs.direct:
		s.upstream.close()
		return s.dial(ctx, &h.upstreamAddr, false)
	case refused && plainToo:
		return nil
	case refused:
		return s.unreachable(ctx, []error{fmt.Errorf("upstream %s: %w", h, errNoTLS)})
	}
	w, err := secureUpstream(ctx, s.upstream, first, false, s.relay.cfg.ConnectTimeout)
	if err == nil && w == nil && !plainToo {
		err = errNoTLS
	}
	if err != nil {
		return s.unreachable(ctx, []error{fmt.Errorf("upstream %s: %w", h, err)})
	}
	if w != nil {
		s.mu.Lock()
		s.upstream = w
		s.mu.Unlock()
	}
	return nil
}

// again waits for the upstream's first word, and reports whether it refused the
// login for how the connection is encrypted, where sslmode knows another way:
// pg_hba.conf has hostssl and hostnossl lines. in gets what was read. As libpq does
// with sslmode=allow and prefer; but only for the SQLSTATE that such lines give.
func (s *session) again(ctx context.Context, in *inbox) (bool, error) {
	_ = s.upstream.conn.SetReadDeadline(time.Now().Add(s.relay.cfg.AnswerTimeout))
	defer s.upstream.quiet()
	for {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		err := s.upstream.read(in, true)
		switch {
		case errors.Is(err, io.EOF):
			return false, nil // the pumps deal with it
		case isTimeout(err) && ctx.Err() == nil && in.n > 0:
			return false, nil // it speaks, and may go on
		case isTimeout(err) && ctx.Err() == nil:
			return false, s.unreachable(ctx, []error{withHint(fmt.Errorf("upstream %s: no answer to the startup packet within %s",
				s.facts.upstream, s.relay.cfg.AnswerTimeout), hintSilent)})
		case err != nil && s.upstream.tls != nil:
			// With TLS 1.3 a server judges the client's certificate after the handshake.
			return false, s.unreachable(ctx, []error{withHint(fmt.Errorf("upstream %s: TLS: %w", s.facts.upstream, rootCause(err)), hintAlert)})
		case err != nil:
			return false, s.unreachable(ctx, []error{fmt.Errorf("upstream %s: %w", s.facts.upstream, rootCause(err))})
		}
		s.relay.upstreamReached(nil)
		if len(s.waysLeft) == 0 {
			return false, nil
		}
		b := in.bytes()
		if b[0] != protocol.FrameErrorResponse {
			return false, nil
		}
		var h protocol.FrameHeader
		switch err := h.Decode(b); {
		case len(b) < protocol.FrameHeaderLen:
			continue
		case err != nil || h.Size() > maxHeldLogin:
			return false, nil
		case len(b) < h.Size():
			continue
		}
		var m protocol.ErrorResponse
		err = m.Decode(b[protocol.FrameHeaderLen:h.Size()])
		return err == nil && m.Code == codeInvalidAuthorization, nil
	}
}

const hintSilent = "It accepts connections and says nothing: the server hangs, or something in between swallows what is said."

// openOtherWay connects anew in the ways that are left, and sends the startup
// packet again. What the upstream said before is forgotten.
func (s *session) openOtherWay(ctx context.Context, in *inbox, packet []byte) error {
	h, left := s.facts.upstream, s.waysLeft
	s.upstream.close()
	in.release()
	if err := s.dialHost(ctx, h, left); err != nil {
		return s.unreachable(ctx, []error{fmt.Errorf("upstream %s: %w", h, err)})
	}
	return s.forwardStartup(ctx, packet)
}

// forwardStartup sends the startup packet. With TLS 1.3 a server judges the
// client's certificate after the handshake, so it may have hung up.
func (s *session) forwardStartup(ctx context.Context, packet []byte) error {
	err := s.upstream.write(packet)
	switch {
	case err != nil && s.upstream.tls != nil:
		return s.unreachable(ctx, []error{withHint(fmt.Errorf("upstream %s: TLS: %w", s.facts.upstream, err), hintAlert)})
	case err != nil:
		return fmt.Errorf("forward startup packet: %w", err)
	}
	return nil
}
