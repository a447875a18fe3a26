package pcap

import "encoding/binary"

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
