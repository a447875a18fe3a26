package relay

import (
	"errors"
	"slices"

	"github.com/slotferry/slotferry/protocol"
)

// binding is what becomes of SCRAM's channel binding where the relay ends TLS.
// A login that is bound to one TLS session cannot pass into another: that is
// what channel binding is for. So it is not offered, and a client that insists
// on it, or remarks that it was not offered, is told what to change. Where the
// relay ends no TLS, or passes TLS through, nothing is touched. It is pure.
type binding struct {
	downstream, upstream bool // the relay ends TLS there

	stripped bool // an offer of channel binding was taken out
	waiting  bool // for the client's choice of a mechanism
}

var errBinding = errors.New("SCRAM channel binding cannot pass through a relay that ends TLS on both sides")

const hintBinding = "Set channel_binding=disable in the connection string of the client (primary_conninfo), " +
	"or let TLS pass through the relay: start it without --tls-cert."

// ends reports whether there is anything to see to.
func (b *binding) ends() bool { return b.downstream || b.upstream }

// waits reports whether the next word of the client is its choice.
func (b *binding) waits() bool { return b.waiting }

// offer deals with an Authentication frame.
func (b *binding) offer(frame []byte) step {
	var m protocol.Authentication
	err := m.Decode(frame[protocol.FrameHeaderLen:])
	b.waiting = err == nil && m.Request == protocol.AuthSASL
	i := slices.Index(m.Mechanisms, protocol.SCRAMPlus)
	if !b.waiting || i < 0 {
		return step{size: len(frame)}
	}
	b.stripped = true
	rest := slices.Delete(m.Mechanisms, i, i+1)
	if len(rest) == 0 {
		return step{err: errBinding}
	}
	return step{size: len(frame), own: protocol.AppendAuthenticationSASL(nil, rest)}
}

// answer deals with the client's choice. An upstream without TLS takes the
// remark that channel binding was not offered for what it is; one with TLS
// takes it for an attack (read_client_first_message, auth-scram.c).
func (b *binding) answer(frame []byte) step {
	b.waiting = false
	var m protocol.SASLInitialResponse
	if b.stripped && m.Decode(frame[protocol.FrameHeaderLen:]) == nil && m.BindsChannel() {
		return step{err: errBinding}
	}
	return step{size: len(frame)}
}

// hintLeftAtOffer: nothing tells the two causes apart, and the first is an everyday
// one. psql connects without a password, leaves, asks its user, and comes again.
const hintLeftAtOffer = "It has no password yet, or channel_binding=require, which cannot be where the relay ends TLS: " +
	"then set channel_binding=disable in its connection string."

// leftAtOffer notes a client that ended its login at the offer.
func (s *session) leftAtOffer() {
	s.mu.Lock()
	left := s.conv.binding.waiting && !s.conv.ready
	s.mu.Unlock()
	if left {
		s.relay.sawLeftAtOffer(true)
	}
}

// ownTLS reports whether the relay ends TLS on either side.
func (s *session) ownTLS() bool { return s.downstream.tls != nil || s.upstream.tls != nil }
