package pcap

import (
	"encoding/binary"
	"net/netip"
)

// Numbers of protocols over IP (www.iana.org/assignments/protocol-numbers).
const (
	protoHopByHop    = 0
	protoTCP         = 6
	protoRouting     = 43
	protoDestination = 60
)

// Bits of TCP's header (RFC 9293, 3.1).
const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

// segment is the TCP segment in a packet.
type segment struct {
	from, to netip.AddrPort
	seq      uint32
	flags    byte
	payload  []byte
	missing  int // bytes of the payload that were not captured
}

func (s *segment) has(flag byte) bool { return s.flags&flag != 0 }

// decode takes an IP packet apart, and reports whether there is a TCP segment in
// it. A length of zero stands for a packet that the sender's network card would
// still have cut up: it is as long as what was captured.
func (s *segment) decode(ip []byte) bool {
	switch ip[0] >> 4 {
	case 4:
		return s.decodeIPv4(ip)
	case 6:
		return s.decodeIPv6(ip)
	default:
		return false
	}
}

// decodeIPv4 reads a header as of RFC 791, 3.1. Fragments are not put together.
func (s *segment) decodeIPv4(ip []byte) bool {
	const moreFragmentsOrOffset = 0x3FFF
	if len(ip) < 20 || ip[9] != protoTCP || binary.BigEndian.Uint16(ip[6:])&moreFragmentsOrOffset != 0 {
		return false
	}
	head, total := int(ip[0]&0x0F)*4, int(binary.BigEndian.Uint16(ip[2:]))
	if total == 0 {
		total = len(ip)
	}
	if head < 20 || total < head || len(ip) < head {
		return false
	}
	from, to := netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	return s.decodeTCP(from, to, ip[head:min(total, len(ip))], total-head)
}

// decodeIPv6 reads a header as of RFC 8200, 3.
func (s *segment) decodeIPv6(ip []byte) bool {
	const head = 40
	if len(ip) < head {
		return false
	}
	length := int(binary.BigEndian.Uint16(ip[4:]))
	if length == 0 {
		length = len(ip) - head
	}
	payload := ip[head:min(head+length, len(ip))]
	body, ok := upperLayer(ip[6], payload)
	if !ok {
		return false
	}
	from, to := netip.AddrFrom16([16]byte(ip[8:])).Unmap(), netip.AddrFrom16([16]byte(ip[24:])).Unmap()
	return s.decodeTCP(from, to, body, length-(len(payload)-len(body)))
}

// upperLayer passes over IPv6's extension headers (RFC 8200, 4), up to TCP.
func upperLayer(next byte, b []byte) ([]byte, bool) {
	for range 8 {
		switch next {
		case protoTCP:
			return b, true
		case protoHopByHop, protoRouting, protoDestination:
			if len(b) < 8 || len(b) < 8+int(b[1])*8 {
				return nil, false
			}
			next, b = b[0], b[8+int(b[1])*8:]
		default:
			return nil, false
		}
	}
	return nil, false
}

// decodeTCP reads a header as of RFC 9293, 3.1. length is what IP says of b, which
// may have been cut short.
func (s *segment) decodeTCP(from, to netip.Addr, b []byte, length int) bool {
	if len(b) < 20 {
		return false
	}
	head := int(b[12]>>4) * 4
	if head < 20 || len(b) < head {
		return false
	}
	*s = segment{
		from: netip.AddrPortFrom(from, binary.BigEndian.Uint16(b)), to: netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])),
		seq: binary.BigEndian.Uint32(b[4:]), flags: b[13], payload: b[head:], missing: max(0, length-len(b)),
	}
	return true
}
