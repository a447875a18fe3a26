package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// optInLen is by how much the marker makes a startup packet longer.
const optInLen = len(protocol.OptInParameter) + 1 + len(protocol.OptInValue) + 1

// tlsHandshake is the first byte of a TLS record that opens a connection
// (ContentType handshake, RFC 8446), as with sslnegotiation=direct.
const tlsHandshake = 0x16

// handshake reads the downstream's startup packets up to the one that opens a
// session, and passes that on. opened is false when there is no session to
// relay: a CancelRequest, or a peer that went away. Bytes behind the startup
// packet are left in the inbox.
func (s *session) handshake(ctx context.Context, in, fromUpstream *inbox) (opened bool, err error) {
	deadline := time.Now().Add(s.relay.cfg.HandshakeTimeout)
	asked := map[uint32]bool{}
	var failed error // why the upstream could not be reached
	for {
		_ = s.downstream.conn.SetReadDeadline(deadline)
		packet, err := s.readStartup(ctx, in)
		s.downstream.quiet()
		switch {
		case errors.Is(err, io.EOF) && in.n == 0:
			return false, nil // a port check
		case err != nil:
			return false, fmt.Errorf("read startup packet: %w", err)
		case packet == nil && s.relay.cfg.TLS != nil:
			if err := s.acceptTLS(ctx, in, deadline, true); err != nil {
				return false, err
			}
			continue
		case packet == nil: // TLS from the first byte
			return s.openOpaque(ctx, failed)
		}
		code, err := protocol.StartupCode(packet)
		switch {
		case err != nil:
			return false, err
		case code == protocol.CancelRequestCode:
			return false, s.forwardCancel(ctx, packet)
		case code == protocol.SSLRequestCode || code == protocol.GSSENCRequestCode:
			if len(packet) < in.n {
				return false, errStuffed
			}
			repeated := asked[code] || s.downstream.tls != nil
			asked[code] = true
			in.consume(len(packet))
			opaque, err := s.answerEncryption(ctx, in, code, repeated, deadline, &failed)
			if err != nil || opaque {
				return opaque, err
			}
			continue
		}
		// The upstream may take its time: no buffer is held for that.
		packet = bytes.Clone(packet)
		in.consume(len(packet))
		return s.openSession(ctx, fromUpstream, packet, failed)
	}
}

// errStuffed is what ProcessStartupPacket (backend_startup.c) says to bytes
// that someone put behind a request for encryption.
var errStuffed = &ending{
	code: codeProtocolViolation, message: "received unencrypted data after SSL request",
	hint: "This is a fault of the client's software, or someone in the middle tries to put words into its mouth.",
	err:  errors.New("received unencrypted data after SSL request"),
}

// readStartup returns the packet at the front of the inbox, reading until it
// is whole. nil is the begin of a TLS handshake.
func (s *session) readStartup(ctx context.Context, in *inbox) ([]byte, error) {
	for {
		b := in.bytes()
		if len(b) > 0 && b[0] == tlsHandshake && s.downstream.tls == nil {
			return nil, nil
		}
		if len(b) >= 4 {
			length := binary.BigEndian.Uint32(b)
			if length < 8 || length > uint32(protocol.MaxStartupPacket+optInLen) {
				return nil, fmt.Errorf("invalid length of startup packet: %d", length)
			}
			if len(b) >= int(length) {
				return b[:length], nil
			}
		}
		if ctx.Err() != nil { // a nudge that came before the deadline was set
			return nil, ctx.Err()
		}
		if err := s.downstream.readSlowly(in); err != nil {
			if errors.Is(err, io.EOF) && in.n > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// answerEncryption answers SSLRequest or GSSENCRequest with one byte: the
// upstream's, or the relay's own. opaque is set when nothing that follows is for
// the relay: the session is encrypted, or the upstream says why there is none.
func (s *session) answerEncryption(ctx context.Context, in *inbox, code uint32, repeated bool, deadline time.Time,
	failed *error,
) (opaque bool, err error) {
	own := s.relay.cfg.TLS
	switch {
	case (s.relay.cfg.RefuseTLS || own != nil) && repeated:
		return false, &ending{code: codeNotSupported, message: fmt.Sprintf(
			"unsupported frontend protocol %d.%d: server supports 3.0 to 3.2", code>>16, code&0xFFFF)}
	case own != nil && code == protocol.SSLRequestCode:
		if err := s.downstream.write([]byte{'S'}); err != nil {
			return false, err
		}
		return false, s.acceptTLS(ctx, in, deadline, false)
	case s.relay.cfg.RefuseTLS || own != nil:
		return false, s.downstream.write([]byte{'N'})
	}
	if s.upstream == nil && *failed == nil {
		*failed = s.dial(ctx, nil, true)
	}
	if *failed != nil {
		// libpq does not show an error that comes in the place of the one byte
		// (since the fix of CVE-2024-10977). It will get it for its startup packet.
		return false, s.downstream.write([]byte{'N'})
	}
	if err := s.upstream.write(protocol.AppendStartupRequest(nil, code)); err != nil {
		return false, fmt.Errorf("ask upstream for encryption: %w", err)
	}
	var answer [1]byte
	_ = s.upstream.conn.SetReadDeadline(time.Now().Add(s.relay.cfg.ConnectTimeout))
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	_, err = io.ReadFull(s.upstream.conn, answer[:])
	s.upstream.quiet()
	if err != nil {
		return false, fmt.Errorf("read upstream's answer about encryption: %w", err)
	}
	s.relay.upstreamReached(nil)
	switch answer[0] {
	case 'N':
		s.refused = s.refused || code == protocol.SSLRequestCode
	case 'S', 'G', 'E': // encrypted, or an ErrorResponse in the place of the byte
		// Nothing may have come before the answer: it would be taken for part of
		// the encrypted session.
		if err := s.downstream.read(in, false); !errors.Is(err, errNoBytes) {
			if err == nil {
				err = errStuffed
			}
			return false, err
		}
		opaque, s.raw = true, true
		if answer[0] != 'E' {
			s.becomeOpaque()
		}
	default:
		return false, endFault(errNotPostgres)
	}
	return opaque, s.downstream.write(answer[:])
}

// openOpaque passes a connection on that is encrypted from its first byte.
func (s *session) openOpaque(ctx context.Context, failed error) (opened bool, err error) {
	if s.relay.cfg.RefuseTLS {
		return false, errors.New("the connection opens with TLS, which this relay refuses")
	}
	if s.upstream == nil && failed == nil {
		failed = s.dial(ctx, nil, true)
	}
	if failed != nil {
		return false, errors.Unwrap(failed) // nobody would understand an ErrorResponse
	}
	s.relay.upstreamReached(nil) // nothing it answers can be read
	s.raw = true
	s.becomeOpaque()
	return true, nil
}

// openSession passes the startup packet on, with the marker taken out or put
// in. fromUpstream gets what the upstream has answered already.
func (s *session) openSession(ctx context.Context, fromUpstream *inbox, packet []byte, failed error) (
	opened bool, err error,
) {
	if err := s.mustBeEncrypted(); err != nil {
		return false, err
	}
	forwarded := s.rewriteStartup(packet)
	if len(forwarded) > protocol.MaxStartupPacket+optInLen ||
		s.relay.cfg.Mode != ModeStrip && len(forwarded) > protocol.MaxStartupPacket {
		return false, fmt.Errorf("invalid length of startup packet: %d", len(forwarded))
	}
	switch {
	case failed != nil:
	case s.upstream == nil:
		failed = s.dial(ctx, nil, false)
	default:
		failed = s.secureBare(ctx, s.refused)
	}
	if failed != nil {
		return false, failed
	}
	if err := s.forwardStartup(ctx, forwarded); err != nil {
		return false, err
	}
	for {
		again, err := s.again(ctx, fromUpstream)
		if err == nil && again {
			err = s.openOtherWay(ctx, fromUpstream, forwarded)
		}
		if err != nil || !again {
			return err == nil, err
		}
	}
}

// rewriteStartup notes what the packet says and returns the one to forward. A
// packet that cannot be read is forwarded as it is: the server judges it.
func (s *session) rewriteStartup(packet []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.facts.startup
	if err := m.Decode(packet); err != nil {
		*m = protocol.StartupMessage{}
		s.facts.kind = KindOpaque
		return packet
	}
	s.facts.kind = map[protocol.ReplicationMode]SessionKind{
		protocol.ReplicationNone:     KindQuery,
		protocol.ReplicationPhysical: KindPhysical,
		protocol.ReplicationDatabase: KindLogical,
	}[m.Replication()]
	if s.relay.cfg.Mode == ModePlain {
		return packet
	}
	value, marked := m.Remove(protocol.OptInParameter)
	strip := s.relay.cfg.Mode == ModeStrip
	ask := strip && s.facts.kind == KindPhysical
	s.conv.Marker = ask || marked && !strip && value == protocol.OptInValue
	// The upstream lets only those into a replication connection who may read all of
	// its WAL: slot state is for them.
	s.conv.Sidecar = s.conv.Marker && !strip && s.relay.cfg.Slots != nil && s.facts.kind != KindQuery
	s.facts.optedIn = s.conv.Marker
	if !marked && !ask {
		return packet
	}
	out := *m
	if ask {
		out.Parameters = append(out.Parameters[:len(out.Parameters):len(out.Parameters)],
			protocol.StartupParameter{Name: protocol.OptInParameter, Value: protocol.OptInValue})
	}
	return out.Append(nil)
}

// becomeOpaque notes that nothing of this session can be read. Where that
// matters it is logged once.
func (s *session) becomeOpaque() {
	s.mu.Lock()
	s.facts.kind = KindOpaque
	s.mu.Unlock()
	s.relay.sawOpaque()
}
