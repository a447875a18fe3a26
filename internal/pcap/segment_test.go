package pcap

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// serialize makes an IP packet of layers.
func serialize(t testing.TB, list ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, list...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

// packets are IP packets with TCP in them, and some without.
func packets(t testing.TB) map[string][]byte {
	v4 := layers.IPv4{Version: 4, TTL: 1, Protocol: layers.IPProtocolTCP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	v6 := layers.IPv6{Version: 6, NextHeader: layers.IPProtocolTCP, SrcIP: net.ParseIP("fe80::1"), DstIP: net.ParseIP("fe80::2")}
	tcp := layers.TCP{SrcPort: 40000, DstPort: 5432, Seq: 0xFFFFFFFE, ACK: true, PSH: true}
	syn := layers.TCP{SrcPort: 40000, DstPort: 5432, Seq: 7, SYN: true, Options: []layers.TCPOption{
		{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{5, 180}}}}
	payload := gopacket.Payload("some bytes")
	options := v4
	options.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 1}, {OptionType: 1}, {OptionType: 0}}
	fragment, last, udp := v4, v4, v4
	fragment.Flags, last.FragOffset, udp.Protocol = layers.IPv4MoreFragments, 9, layers.IPProtocolUDP

	list := map[string][]byte{
		"IPv4":            serialize(t, &v4, &tcp, payload),
		"SYN with MSS":    serialize(t, &v4, &syn),
		"options":         serialize(t, &options, &tcp, payload),
		"IPv6":            serialize(t, &v6, &tcp, payload),
		"first fragment":  serialize(t, &fragment, &tcp, payload),
		"last fragment":   serialize(t, &last, payload),
		"UDP":             serialize(t, &udp, payload),
		"nothing but IP":  serialize(t, &v4),
		"another version": {0x50, 0, 0, 0},
	}
	list["padded by Ethernet"] = append(bytes.Clone(list["IPv4"]), 0, 0, 0, 0, 0, 0)
	list["cut short"] = list["IPv4"][:45]
	list["cut in TCP's header"] = list["IPv4"][:30]
	list["IPv6 cut short"] = list["IPv6"][:65]
	uncut := bytes.Clone(list["IPv4"])
	uncut[2], uncut[3] = 0, 0
	list["length zero"] = uncut
	return list
}

// theirs is what gopacket makes of a packet.
func theirs(ip []byte) (s segment, ok bool) {
	var v4 layers.IPv4
	var v6 layers.IPv6
	var from, to net.IP
	var body []byte
	length := 0
	switch ip[0] >> 4 {
	case 4:
		if v4.DecodeFromBytes(ip, gopacket.NilDecodeFeedback) != nil || v4.Protocol != layers.IPProtocolTCP ||
			v4.FragOffset != 0 || v4.Flags&layers.IPv4MoreFragments != 0 {
			return s, false
		}
		from, to, body, length = v4.SrcIP, v4.DstIP, v4.Payload, int(v4.Length)-int(v4.IHL)*4
	case 6:
		if v6.DecodeFromBytes(ip, gopacket.NilDecodeFeedback) != nil || v6.NextHeader != layers.IPProtocolTCP {
			return s, false
		}
		from, to, body, length = v6.SrcIP, v6.DstIP, v6.Payload, int(v6.Length)
	default:
		return s, false
	}
	var tcp layers.TCP
	if tcp.DecodeFromBytes(body, gopacket.NilDecodeFeedback) != nil {
		return s, false
	}
	a, _ := netip.AddrFromSlice(from)
	b, _ := netip.AddrFromSlice(to)
	s = segment{seq: tcp.Seq, payload: tcp.Payload, missing: max(0, length-len(body)),
		from: netip.AddrPortFrom(a.Unmap(), uint16(tcp.SrcPort)), to: netip.AddrPortFrom(b.Unmap(), uint16(tcp.DstPort))}
	for flag, set := range map[byte]bool{flagSYN: tcp.SYN, flagACK: tcp.ACK, flagFIN: tcp.FIN, flagRST: tcp.RST} {
		if set {
			s.flags |= flag
		}
	}
	return s, true
}

// compare fails where gopacket finds a segment and this package another one or
// none. It need not be the other way round: options are not judged here.
func compare(t *testing.T, ip []byte) (found bool) {
	t.Helper()
	want, ok := theirs(ip)
	var got segment
	found = got.decode(ip)
	if ok && !found {
		t.Errorf("no segment, want %+v", want)
	}
	if ok && found {
		got.flags &= flagSYN | flagACK | flagFIN | flagRST
		if got.from != want.from || got.to != want.to || got.seq != want.seq || got.flags != want.flags ||
			got.missing != want.missing || !bytes.Equal(got.payload, want.payload) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	return found
}

func TestSegment(t *testing.T) {
	none := map[string]bool{"first fragment": true, "last fragment": true, "UDP": true, "nothing but IP": true,
		"another version": true, "cut in TCP's header": true}
	for name, ip := range packets(t) {
		t.Run(name, func(t *testing.T) {
			if found := compare(t, ip); found == none[name] {
				t.Errorf("a segment: %v", found)
			}
		})
	}
}

// Extension headers of IPv6 are passed over, which gopacket leaves to its caller.
func TestSegmentBehindExtensionHeaders(t *testing.T) {
	ip := packets(t)["IPv6"]
	tcp := ip[40:]
	hop, destination := []byte{protoDestination, 0, 0, 0, 0, 0, 0, 0}, []byte{protoTCP, 1, 15: 0}
	long := append(append(append(bytes.Clone(ip[:40]), hop...), destination...), tcp...)
	long[5] += byte(len(hop) + len(destination))
	long[6] = protoHopByHop
	var want, got segment
	if !want.decode(ip) || !got.decode(long) {
		t.Fatal("no segment")
	}
	if got.from != want.from || got.seq != want.seq || got.missing != 0 || !bytes.Equal(got.payload, want.payload) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for n := 41; n < len(long)-len(tcp)+20; n++ {
		if got.decode(long[:n]) {
			t.Errorf("a segment in %d bytes", n)
		}
	}
}

func FuzzSegment(f *testing.F) {
	for _, ip := range packets(f) {
		f.Add(ip)
	}
	f.Fuzz(func(t *testing.T, ip []byte) {
		if len(ip) > 0 {
			compare(t, ip)
		}
	})
}
