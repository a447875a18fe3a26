package trace

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/walgen"
	"github.com/slotferry/slotferry/protocol"
)

const testTime = 849232000000000 // 2026-11-30

// piece of a conversation.
type said struct {
	dir Direction
	b   []byte
}

func frame(kind byte, body ...byte) []byte {
	n := len(body) + 4
	return append([]byte{kind, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

func query(text string) []byte { return frame('Q', append([]byte(text), 0)...) }

// login is a conversation up to the first ReadyForQuery.
func login() []said {
	startup := protocol.StartupMessage{Version: 3<<16 | 2, Parameters: []protocol.StartupParameter{
		{Name: "user", Value: "repl"}, {Name: "replication", Value: "true"}, {Name: "_pq_.slotferry", Value: "1"}}}
	negotiate := protocol.NegotiateProtocolVersion{Version: 3 << 16, Parameters: []string{"_pq_.x"}}
	down := negotiate.Append(nil)
	down = append(down, frame('R', 0, 0, 0, 3)...)
	return []said{
		{Upstream, protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)},
		{Downstream, []byte{'N'}},
		{Upstream, startup.Append(nil)},
		{Downstream, down},
		{Upstream, frame('p', []byte("hunter2\x00")...)},
		{Downstream, slices.Concat(frame('R', 0, 0, 0, 0), frame('S', []byte("server_version\x0018.4\x00")...),
			frame('K', 0, 0, 0, 9, 1, 2, 3, 4), protocol.AppendReadyForQuery(nil))},
	}
}

// physical is a conversation with a physical stream, of n XLogData.
func physical(n int) []said {
	list := append(login(),
		said{Upstream, query("START_REPLICATION SLOT \"ph1\" PHYSICAL 0/3000000 TIMELINE 1")},
		said{Downstream, protocol.AppendCopyBothResponse(nil)})
	w := walgen.New(0x3000000)
	for i := range n {
		at := len(w.Bytes())
		w.Record(10, 0, uint32(700+i), 100+i)
		end := w.End()
		x := protocol.XLogData{DataStart: w.Start() + protocol.LSN(at), WALEnd: end, SendTime: testTime, Data: w.Bytes()[at:]}
		k := protocol.PrimaryKeepalive{WALEnd: end, SendTime: testTime, ReplyRequested: true}
		r := protocol.StandbyStatusUpdate{Write: end, Flush: end, Apply: end, SendTime: testTime}
		h := protocol.HotStandbyFeedback{SendTime: testTime, CatalogXmin: 700}
		list = append(list,
			said{Downstream, protocol.AppendCopyData(nil, x.Append(nil))},
			said{Downstream, protocol.AppendCopyData(nil, k.Append(nil))},
			said{Upstream, protocol.AppendCopyData(nil, r.Append(nil))},
			said{Upstream, protocol.AppendCopyData(nil, h.Append(nil))})
	}
	return append(list, said{Upstream, protocol.AppendCopyDone(nil)},
		said{Downstream, slices.Concat(protocol.AppendCopyDone(nil), protocol.AppendCommandComplete(nil, "COPY 0"), protocol.AppendReadyForQuery(nil))},
		said{Upstream, frame('X')})
}

// heard is what a Session said.
type heard struct {
	lines []string
	json  []string
	bytes [2]int64
	names []string
	all   []Message // without what is only valid in emit
}

func (h *heard) emit(m *Message) {
	h.lines = append(h.lines, string(m.AppendText(nil)))
	h.json = append(h.json, string(m.AppendJSON(nil)))
	h.bytes[m.Direction] += m.Length - m.Missing
	h.names = append(h.names, m.Name)
	h.all = append(h.all, *m)
}

func (h *heard) faults() (n int) {
	for i := range h.all {
		if h.all[i].Fault {
			n++
		}
	}
	return n
}

// play feeds a conversation, in pieces of at most size bytes; 0: as it is.
func play(list []said, size int) *heard {
	h := &heard{}
	s := NewSession(Config{At: -1}, 1, h.emit)
	var offset int64
	for _, p := range list {
		for b := p.b; len(b) > 0; {
			n := len(b)
			if size > 0 {
				n = min(n, size)
			}
			s.Feed(p.dir, testTime, offset, b[:n])
			offset += int64(n)
			b = b[n:]
		}
	}
	s.End()
	return h
}

func fed(list []said) (n [2]int64) {
	for _, p := range list {
		n[p.dir] += int64(len(p.b))
	}
	return n
}

// TestPiecesDoNotMatter checks that a conversation reads the same however it was
// cut.
func TestPiecesDoNotMatter(t *testing.T) {
	list := physical(20)
	want := play(list, 0)
	if want.faults() > 0 || slices.Contains(want.names, "Gap") || slices.Contains(want.names, "Unfinished") {
		t.Fatalf("faults in a good conversation:\n%s", strings.Join(want.lines, "\n"))
	}
	for _, size := range []int{1, 2, 3, 5, 6, 7, 100} {
		got := play(list, size)
		if !slices.Equal(got.lines, want.lines) {
			for i := range got.lines {
				if got.lines[i] != want.lines[i] {
					t.Fatalf("in pieces of %d, message %d:\n%s\nwant\n%s", size, i, got.lines[i], want.lines[i])
				}
			}
		}
	}
	if want.bytes != fed(list) {
		t.Errorf("messages have %v bytes, %v were fed", want.bytes, fed(list))
	}
}

// TestPasswordIsMasked looks for secrets in all that is printed.
func TestPasswordIsMasked(t *testing.T) {
	h := play(physical(1), 0)
	for _, line := range append(h.lines, h.json...) {
		if strings.Contains(line, "hunter2") || strings.Contains(line, "01020304") {
			t.Errorf("secret in %s", line)
		}
	}
}

// damage is one way to spoil a stream.
type damage struct {
	name  string
	spoil func(b []byte, at int) []byte
}

var damages = []damage{
	{"delete a byte", func(b []byte, at int) []byte { return slices.Concat(b[:at], b[at+1:]) }},
	{"insert a byte", func(b []byte, at int) []byte { return slices.Concat(b[:at], []byte{0x5A}, b[at:]) }},
	{"duplicate ten bytes", func(b []byte, at int) []byte { return slices.Concat(b[:at+10], b[at:]) }},
	{"delete a hundred bytes", func(b []byte, at int) []byte { return slices.Concat(b[:at], b[at+100:]) }},
}

// TestDamageInTheMiddleIsPassedOver spoils a stream at every byte of a message
// and its neighbour: the break is reported near it, what follows is found again,
// and every byte is accounted for.
func TestDamageInTheMiddleIsPassedOver(t *testing.T) {
	list := physical(40)
	var down []byte
	for _, p := range list {
		if p.dir == Downstream {
			down = append(down, p.b...)
		}
	}
	good := play(list, 0)
	var messages []Message
	for _, m := range good.all {
		if m.Direction == Downstream {
			messages = append(messages, m)
		}
	}
	victim := slices.IndexFunc(messages, func(m Message) bool { return m.Name == "XLogData" && m.Position > int64(len(down)/3) })
	from, to := int(messages[victim].Position), int(messages[victim+1].Position+messages[victim+1].Length)
	for _, d := range damages {
		for at := from; at < to; at++ {
			spoiled := d.spoil(down, at)
			var bad []said
			for _, p := range list {
				if p.dir == Downstream {
					n := min(len(p.b), len(spoiled))
					p.b, spoiled = spoiled[:n], spoiled[n:]
				}
				bad = append(bad, p)
			}
			bad = append(bad, said{Downstream, spoiled})
			got := play(bad, 0)
			if got.bytes != fed(bad) {
				t.Fatalf("%s at %d: messages have %v bytes, %v were fed", d.name, at, got.bytes, fed(bad))
			}
			if got.faults() == 0 {
				t.Fatalf("%s at %d (message at %d): nothing was noticed", d.name, at, from)
			}
			missed := len(good.all) - len(got.all)
			if missed > 8 || !slices.Contains(got.names, "CommandComplete") {
				t.Fatalf("%s at %d: %d messages of %d were found", d.name, at, len(got.all), len(good.all))
			}
			for _, m := range got.all {
				if m.Name == "Break" && (m.Position < int64(from)-300 || m.Position > int64(to)+300) {
					t.Fatalf("%s at %d: the break is reported at %d", d.name, at, m.Position)
				}
			}
		}
	}
}

// TestDamagedHeaderIsPassedOver flips each bit of a frame's header.
func TestDamagedHeaderIsPassedOver(t *testing.T) {
	list := physical(40)
	for i, p := range list {
		if i < 60 || i > 66 {
			continue
		}
		for bit := range 8 * protocol.FrameHeaderLen {
			bad := slices.Clone(list)
			bad[i].b = slices.Clone(p.b)
			bad[i].b[bit/8] ^= 1 << (bit % 8)
			got := play(bad, 0)
			if got.bytes != fed(bad) {
				t.Fatalf("message %d, bit %d: messages have %v bytes, %v were fed", i, bit, got.bytes, fed(bad))
			}
			if got.faults() == 0 && !slices.Contains(got.names, "Unknown") {
				t.Errorf("message %d (%s), bit %d: nothing was noticed:\n%s", i, p.dir, bit, strings.Join(got.lines, "\n"))
			}
			if !slices.Contains(got.names, "CommandComplete") || !slices.Contains(got.names, "Terminate") {
				t.Errorf("message %d (%s), bit %d: what follows was not found again", i, p.dir, bit)
			}
		}
	}
}

// TestLateStart begins a stream at every byte.
func TestLateStart(t *testing.T) {
	var down []byte
	for _, p := range physical(10) {
		if p.dir == Downstream {
			down = append(down, p.b...)
		}
	}
	for from := range len(down) - 40 {
		h := &heard{}
		s := NewSession(Config{At: -1}, 1, h.emit)
		s.JoinLate()
		s.Feed(Downstream, testTime, 0, down[from:])
		s.End()
		if h.bytes[Downstream] != int64(len(down)-from) || !slices.Contains(h.names, "ReadyForQuery") || slices.Contains(h.names, "Break") {
			t.Fatalf("from byte %d:\n%s", from, strings.Join(h.lines, "\n"))
		}
	}
}

// FuzzSession checks that no bytes make a Session fail, that every byte is in one
// message, and that JSON is JSON.
func FuzzSession(f *testing.F) {
	var up, down []byte
	for _, p := range physical(2) {
		if p.dir == Upstream {
			up = append(up, p.b...)
		} else {
			down = append(down, p.b...)
		}
	}
	f.Add(up, down, 7, 0, false)
	f.Add(up[100:], down[100:], 100, 3, true)
	f.Add([]byte{}, []byte("@RSYNCD: 31.0\n"), 3, 0, false)
	for _, l := range logicalStream() {
		f.Add([]byte{}, l, 50, 0, true)
	}
	f.Fuzz(func(t *testing.T, up, down []byte, size, lose int, late bool) {
		h := &heard{}
		s := NewSession(Config{At: -1, ShowSecrets: late}, 1, h.emit)
		if late {
			s.JoinLate()
		}
		size = min(max(size, 1), 1<<16)
		want := [2]int64{int64(len(down)), int64(len(up))}
		for n := 0; len(up)+len(down) > 0; n++ {
			k := min(size, len(up))
			s.Feed(Upstream, testTime, int64(n), up[:k])
			up = up[k:]
			k = min(size, len(down))
			s.Feed(Downstream, testTime, int64(n), down[:k])
			down = down[k:]
			if n == lose {
				s.Lost(Downstream, int64(lose), "lost")
			}
		}
		s.End()
		if h.bytes != want {
			t.Fatalf("messages have %v bytes, %v were fed", h.bytes, want)
		}
		for _, line := range h.json {
			if !json.Valid([]byte(line)) {
				t.Fatalf("not JSON: %s", line)
			}
		}
		for _, line := range h.lines {
			if strings.Contains(line, "\n") {
				t.Fatalf("more than one line: %q", line)
			}
		}
	})
}

// logicalStream returns frames of a logical stream, as pgoutput fills them.
func logicalStream() [][]byte {
	var list [][]byte
	for _, body := range []string{
		"R\x00\x00\x40\x01public\x00t\x00d\x00\x02\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff\x00v\x00\x00\x00\x00\x19\xff\xff\xff\xff",
		"B\x00\x00\x00\x00\x01\x50\x00\x00\x00\x00\x00\x00\x01\x50\x00\x00\x00\x00\x02\xee",
		"I\x00\x00\x40\x01N\x00\x02t\x00\x00\x00\x011n",
		"U\x00\x00\x40\x01K\x00\x02t\x00\x00\x00\x011nN\x00\x02t\x00\x00\x00\x012u",
		"S\x00\x00\x02\xee\x01",
		"T\x00\x00\x02\xee\x00\x00\x00\x01\x01\x00\x00\x40\x01",
		"r\x00\x00\x00\x00\x00\x01\x50\x00\x00\x00\x00\x00\x01\x50\x00\x00\x00\x00\x00\x01\x50\x00\x00\x00\x00\x00\x01\x50\x00\x00\x00\x00\x02\xeegid\x00\x00",
	} {
		x := protocol.XLogData{DataStart: 0x1500000, WALEnd: 0x1500000, SendTime: testTime, Data: []byte(body)}
		list = append(list, protocol.AppendCopyData(nil, x.Append(nil)))
	}
	return list
}
