package pcap

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Link types (www.tcpdump.org/linktypes.html).
const (
	linkNull     = 0
	linkEthernet = 1
	linkRawBSD   = 12
	linkRawOpen  = 14
	linkRaw      = 101
	linkLoop     = 108
	linkCooked   = 113
	linkIPv4     = 228
	linkIPv6     = 229
	linkCooked2  = 276
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86DD
	etherVLAN = 0x8100
	etherQinQ = 0x88A8
)

// network returns the IP packet in a packet; nil when there is none.
func network(link uint32, b []byte) []byte {
	kind, head := uint16(0), 0
	switch link {
	case linkEthernet:
		for head = 14; len(b) >= head; head += 4 {
			kind = binary.BigEndian.Uint16(b[head-2:])
			if kind != etherVLAN && kind != etherQinQ {
				break
			}
		}
	case linkCooked:
		if head = 16; len(b) >= head {
			kind = binary.BigEndian.Uint16(b[14:])
		}
	case linkCooked2:
		if head = 20; len(b) >= head {
			kind = binary.BigEndian.Uint16(b)
		}
	case linkNull, linkLoop:
		head, kind = 4, etherIPv4 // the family's number depends on the system: the IP version tells
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		kind = etherIPv4
	}
	if len(b) <= head || kind != etherIPv4 && kind != etherIPv6 {
		return nil
	}
	return b[head:]
}

// segment is the TCP segment in a packet.
type segment struct {
	from, to netip.AddrPort
	tcp      layers.TCP
	payload  []byte
	missing  int // bytes of the payload that were not captured
}

// decoder takes packets apart. It keeps what it would else allocate.
type decoder struct {
	v4  layers.IPv4
	v6  layers.IPv6
	seg segment
}

// decode returns the TCP segment in an IP packet; nil when there is none.
func (d *decoder) decode(ip []byte) *segment {
	var from, to netip.Addr
	length := 0 // of the TCP segment, as IP says
	var body []byte
	switch ip[0] >> 4 {
	case 4:
		if d.v4.DecodeFromBytes(ip, gopacket.NilDecodeFeedback) != nil || d.v4.Protocol != layers.IPProtocolTCP ||
			d.v4.FragOffset != 0 || d.v4.Flags&layers.IPv4MoreFragments != 0 {
			return nil
		}
		from, _ = netip.AddrFromSlice(d.v4.SrcIP)
		to, _ = netip.AddrFromSlice(d.v4.DstIP)
		body = d.v4.Payload
		length = int(d.v4.Length) - int(d.v4.IHL)*4
	case 6:
		if d.v6.DecodeFromBytes(ip, gopacket.NilDecodeFeedback) != nil {
			return nil
		}
		from, _ = netip.AddrFromSlice(d.v6.SrcIP)
		to, _ = netip.AddrFromSlice(d.v6.DstIP)
		var ok bool
		if body, ok = upperLayer(d.v6.NextHeader, d.v6.Payload); !ok {
			return nil
		}
		length = int(d.v6.Length) - (len(d.v6.Payload) - len(body))
	default:
		return nil
	}
	s := &d.seg
	if s.tcp.DecodeFromBytes(body, gopacket.NilDecodeFeedback) != nil {
		return nil
	}
	s.from = netip.AddrPortFrom(from.Unmap(), uint16(s.tcp.SrcPort))
	s.to = netip.AddrPortFrom(to.Unmap(), uint16(s.tcp.DstPort))
	s.payload = s.tcp.Payload
	s.missing = max(0, length-len(body))
	return s
}

// upperLayer passes over IPv6's extension headers (RFC 8200), up to TCP.
func upperLayer(next layers.IPProtocol, b []byte) ([]byte, bool) {
	for range 8 {
		switch next {
		case layers.IPProtocolTCP:
			return b, true
		case layers.IPProtocolIPv6HopByHop, layers.IPProtocolIPv6Routing, layers.IPProtocolIPv6Destination:
			if len(b) < 8 || len(b) < 8+int(b[1])*8 {
				return nil, false
			}
			next, b = layers.IPProtocol(b[0]), b[8+int(b[1])*8:]
		default:
			return nil, false
		}
	}
	return nil, false
}
