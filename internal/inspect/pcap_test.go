package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/slotferry/slotferry/internal/capture"
	"github.com/slotferry/slotferry/protocol"
)

// wirePacket is one packet of a packet capture that a test makes.
type wirePacket struct {
	time time.Time
	ip   []byte
}

// link puts an IP packet into a link layer's.
var links = map[string]struct {
	number uint32
	wrap   func(ip []byte) []byte
}{
	"ethernet": {1, func(ip []byte) []byte { return append(append(make([]byte, 12), 0x08, 0x00), ip...) }},
	"vlan":     {1, func(ip []byte) []byte { return append(append(make([]byte, 12), 0x81, 0, 0, 5, 0x08, 0x00), ip...) }},
	"null":     {0, func(ip []byte) []byte { return append([]byte{2, 0, 0, 0}, ip...) }},
	"loop":     {108, func(ip []byte) []byte { return append([]byte{0, 0, 0, 2}, ip...) }},
	"raw":      {101, func(ip []byte) []byte { return ip }},
	"cooked":   {113, func(ip []byte) []byte { return append(append(make([]byte, 14), 0x08, 0x00), ip...) }},
	"cooked2":  {276, func(ip []byte) []byte { return append(append([]byte{0x08, 0x00}, make([]byte, 18)...), ip...) }},
}

// packetsOf makes TCP packets of a capture's connections. cut says how long a
// segment may be.
func packetsOf(t testing.TB, data []byte, cut func() int, handshake bool) []wirePacket {
	t.Helper()
	r, err := capture.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var list []wirePacket
	next := map[[2]uint32]uint32{} // connection, direction
	var rec protocol.CaptureRecord
	for {
		err := r.Next(&rec)
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		at := protocol.Time(rec.Time)
		up, down := [2]uint32{rec.Connection, 1}, [2]uint32{rec.Connection, 0}
		switch rec.Kind {
		case protocol.CaptureOpened:
			next[up], next[down] = 0xFFFFFF00, 5 // the numbers wrap
			if handshake {
				list = append(list, wirePacket{at, tcpPacket(t, rec.Connection, true, next[up]-1, "S", nil)},
					wirePacket{at, tcpPacket(t, rec.Connection, false, next[down]-1, "SA", nil)})
			}
		case protocol.CaptureUpstream, protocol.CaptureDownstream:
			key := down
			if rec.Kind == protocol.CaptureUpstream {
				key = up
			}
			for b := rec.Payload; len(b) > 0; {
				n := min(cut(), len(b))
				list = append(list, wirePacket{at, tcpPacket(t, rec.Connection, key == up, next[key], "", b[:n])})
				next[key] += uint32(n)
				b = b[n:]
			}
		case protocol.CaptureClosed:
			list = append(list, wirePacket{at, tcpPacket(t, rec.Connection, true, next[up], "F", nil)},
				wirePacket{at, tcpPacket(t, rec.Connection, false, next[down], "F", nil)})
		}
	}
}

func tcpPacket(t testing.TB, connection uint32, up bool, seq uint32, flags string, payload []byte) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(40000 + connection), DstPort: 6432, Seq: seq, Window: 65535,
		SYN: strings.Contains(flags, "S"), ACK: flags != "S", FIN: strings.Contains(flags, "F")}
	if !up {
		ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
		tcp.SrcPort, tcp.DstPort = tcp.DstPort, tcp.SrcPort
	}
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, tcp, gopacket.Payload(payload))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(b.Bytes())
}

// classic makes a pcap file.
func classic(t testing.TB, list []wirePacket, link string, snaplen int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(uint32(snaplen), layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b.Bytes()[20:], links[link].number)
	for _, p := range list {
		data := links[link].wrap(p.ip)
		ci := gopacket.CaptureInfo{Timestamp: p.time, CaptureLength: min(len(data), snaplen), Length: len(data)}
		if err := w.WritePacket(ci, data[:ci.CaptureLength]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// ng makes a pcapng file.
func ng(t testing.TB, list []wirePacket) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		data := links["ethernet"].wrap(p.ip)
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: p.time, CaptureLength: len(data), Length: len(data)}, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// said returns what each direction of each connection said, without what depends
// on how it was captured.
func said(t *testing.T, output string) map[string][]string {
	t.Helper()
	streams := map[string][]string{}
	for _, l := range strings.Split(strings.TrimSpace(output), "\n") {
		var m struct {
			Connection int             `json:"connection"`
			Direction  string          `json:"direction"`
			Length     int64           `json:"length"`
			Position   int64           `json:"position"`
			Message    string          `json:"message"`
			Fields     json.RawMessage `json:"fields"`
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("%v in %s", err, l)
		}
		key := fmt.Sprint(m.Connection, m.Direction)
		fields := string(m.Fields)
		if before, _, found := strings.Cut(fields, `"delay_us"`); found {
			fields = before // the capture's clock
		}
		streams[key] = append(streams[key], fmt.Sprint(m.Position, " ", m.Length, " ", m.Message, " ", fields))
	}
	return streams
}

// balancedPackets checks the account of a packet capture.
func balancedPackets(t *testing.T, data []byte) *printer {
	t.Helper()
	p := newPrinter(io.Discard, Options{At: -1, Summary: true})
	if err := p.readPackets(t.Context(), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	_ = p.finish()
	if !p.account.Balanced(int64(len(data))) {
		t.Fatalf("the account of %d bytes does not balance: %+v", len(data), p.account)
	}
	return p
}

// TestPacketsSayWhatTheCaptureSays makes packet captures of a capture, in every
// way in which they come, and reads the same messages from them.
func TestPacketsSayWhatTheCaptureSays(t *testing.T) {
	data := readFile(t, session)
	text, _ := inspect(t, data, Options{At: -1, JSON: true})
	want := said(t, text)
	rnd := rand.New(rand.NewPCG(1, 2))
	whole := func() int { return 1400 }
	random := func() int { return 1 + rnd.IntN(1400) }
	tiny := func() int { return 1 + rnd.IntN(9) }
	check := func(name string, file []byte) {
		t.Run(name, func(t *testing.T) {
			text, err := inspect(t, file, Options{At: -1, JSON: true})
			if err != nil {
				t.Errorf("inspect: %v", err)
			}
			got := said(t, text)
			for key, list := range want {
				if i := slices.IndexFunc(list, func(s string) bool { return !slices.Contains(got[key], s) }); i >= 0 || len(got[key]) != len(list) {
					t.Fatalf("connection %s: %d messages, want %d; %.300s is missing", key, len(got[key]), len(list), line(list, i))
				}
			}
			balancedPackets(t, file)
		})
	}
	for link := range links {
		check(link, classic(t, packetsOf(t, data, whole, true), link, 262144))
	}
	check("pcapng", ng(t, packetsOf(t, data, random, true)))
	check("tiny segments", classic(t, packetsOf(t, data, tiny, true), "cooked", 262144))

	again := packetsOf(t, data, random, true)
	for i := len(again) - 1; i > 0; i-- { // what was sent twice, as with -i any
		again = slices.Insert(again, i, again[i-rnd.IntN(min(3, i))])
	}
	check("retransmitted", classic(t, again, "cooked2", 262144))

	shuffled := packetsOf(t, data, random, true)
	for i := range shuffled {
		if j := i + 1; j < len(shuffled) && i%3 == 0 && sameDirection(shuffled[i].ip, shuffled[j].ip) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		}
	}
	check("out of order", classic(t, shuffled, "ethernet", 262144))
	check("no handshake", classic(t, packetsOf(t, data, whole, false), "raw", 262144))
}

func sameDirection(a, b []byte) bool {
	return bytes.Equal(a[12:24], b[12:24]) && len(a) > 40 && len(b) > 40
}

// TestSnaplenKeepsFraming cuts every packet short: headers are still read, and
// what is behind them too.
func TestSnaplenKeepsFraming(t *testing.T) {
	data := readFile(t, session)
	file := classic(t, packetsOf(t, data, func() int { return 1400 }, true), "ethernet", 14+40+96)
	p := balancedPackets(t, file)
	if p.account.Messages == 0 || p.sums[1].Messages["downstream"]["XLogData"] == nil || p.sums[1].Missing == 0 {
		t.Errorf("account is %+v", p.account)
	}
}

// TestLostPacketsAreMarked drops packets: what follows is found again.
func TestLostPacketsAreMarked(t *testing.T) {
	data := readFile(t, session)
	list := packetsOf(t, data, func() int { return 1400 }, true)
	for drop := 3; drop < len(list); drop += 5 {
		file := classic(t, slices.Concat(list[:drop], list[drop+1:]), "ethernet", 262144)
		p := balancedPackets(t, file)
		if len(p.sums) != 3 {
			t.Fatalf("without packet %d: %d connections", drop, len(p.sums))
		}
	}
}

// TestOtherConnectionsAreLeftOut mixes in what is not PostgreSQL's.
func TestOtherConnectionsAreLeftOut(t *testing.T) {
	list := packetsOf(t, readFile(t, session), func() int { return 1400 }, true)
	now := list[0].time
	var noise []wirePacket
	noise = append(noise, wirePacket{now, tcpPacket(t, 900, true, 1, "S", nil)},
		wirePacket{now, tcpPacket(t, 900, true, 2, "", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))},
		wirePacket{now, tcpPacket(t, 901, false, 77, "", []byte("SSH-2.0-OpenSSH_9.2p1\r\n"))})
	file := classic(t, append(noise, list...), "ethernet", 262144)
	p := balancedPackets(t, file)
	if len(p.sums) != 3 || p.account.OtherPackets != 27+23 {
		t.Errorf("%d connections, %d bytes of others", len(p.sums), p.account.OtherPackets)
	}
}

// TestTsharkSeesTheSame compares the messages with those that Wireshark's
// dissector finds in the same file.
func TestTsharkSeesTheSame(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Fatal("this test needs tshark: install Debian's package tshark")
	}
	data := readFile(t, session)
	file := filepath.Join(t.TempDir(), "session.pcap")
	content := classic(t, packetsOf(t, data, func() int { return 1400 }, true), "ethernet", 262144)
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tshark, "-r", file, "-d", "tcp.port==6432,pgsql", "-Y", "pgsql", "-T", "fields",
		"-e", "tcp.stream", "-e", "pgsql.frontend", "-e", "pgsql.type", "-e", "pgsql.length")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	want := map[string][]string{}
	for _, l := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f := strings.Split(l, "\t")
		dir := map[string]string{"1": "upstream", "True": "upstream", "0": "downstream", "False": "downstream"}[strings.Split(f[1], ",")[0]]
		want[f[0]+dir] = append(want[f[0]+dir], strings.Split(f[3], ",")...)
	}
	text, _ := inspect(t, content, Options{At: -1, JSON: true, NoRecords: true})
	got := map[string][]string{}
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		var m struct {
			Connection int    `json:"connection"`
			Direction  string `json:"direction"`
			Length     int64  `json:"length"`
			Message    string `json:"message"`
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		if m.Message != "StartupMessage" {
			m.Length-- // the type byte
		}
		key := fmt.Sprint(m.Connection-1, m.Direction)
		got[key] = append(got[key], fmt.Sprint(m.Length))
	}
	for key, list := range want {
		if !slices.Equal(got[key], list) {
			t.Errorf("stream %s: lengths are %v, tshark has %v", key, got[key], list)
		}
	}
	if len(want) != 6 || len(got) != 6 {
		t.Errorf("%d and %d streams, want 6", len(got), len(want))
	}
}
