// Package pcap reads packet captures, of tcpdump, Wireshark and others, and gives
// the bytes of the PostgreSQL connections in them, in order. It needs no libpcap.
//
// The files are read here and not with pcapgo: a length in a hostile file must
// not make this program allocate, every byte is accounted for, and pcapgo cuts
// link types to eight bits, of which Linux cooked v2 (276) needs nine. Packets are
// taken apart here too: gopacket's layers fill tables of 6 MiB when a program that
// has them begins, a quarter of a relay's memory. Tests compare with them.
package pcap
