package relay

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// A pipe takes no more than it is told, brings all of it, says how a connection
// ended, and allocates nothing.
func TestPipe(t *testing.T) {
	from, sender := wires(t)
	to, receiver := wires(t)
	var p pipe
	if !p.open() {
		t.Fatal("no pipe")
	}
	defer p.close()
	want := bytes.Repeat([]byte("0123456789"), 3000)
	got := make([]byte, 7)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := sender.Write(want); err != nil {
			t.Fatal(err)
		}
		for left := len(want); left > 0; {
			n, err := p.fill(from, min(left, len(got)))
			if err != nil || n > len(got) {
				t.Fatal(n, err)
			}
			if err := p.pour(to, n); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(receiver, got[:n]); err != nil || !bytes.Equal(got[:n], want[len(want)-left:][:n]) {
				t.Fatalf("%q, %v", got[:n], err)
			}
			left -= n
		}
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	from.nudge()
	if _, err := p.fill(from, 10); !isTimeout(err) {
		t.Errorf("nudged: %v", err)
	}
	from.quiet()
	_ = sender.Close()
	if _, err := p.fill(from, 10); err != io.EOF {
		t.Errorf("ended: %v", err)
	}
}

// Where splice(2) is refused nothing is lost: the bytes are still there to read.
func TestPipeRefused(t *testing.T) {
	from, sender := wires(t)
	var p pipe
	if !p.open() {
		t.Fatal("no pipe")
	}
	defer p.close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	real := p.w
	p.w = int(file.Fd()) // splice(2) wants a pipe on one side
	if _, err := sender.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_, err = p.fill(from, 100)
	p.w = real
	if !errors.Is(err, errNoPipe) || !p.refused {
		t.Errorf("%v, refused %v", err, p.refused)
	}
	var in inbox
	if err := from.read(&in, true); err != nil || string(in.bytes()) != "hello" {
		t.Errorf("%q, %v", in.bytes(), err)
	}
}

// Between large frames little is read at once; of a large frame that is taken out,
// and of small ones, all that is there.
func TestReadSize(t *testing.T) {
	near, _ := wires(t)
	var c Conversation
	c.Marker, c.ready, c.stream = true, true, streamPhysical
	p := pump{dir: Downstream, flow: newFlow(Downstream, true, 0, &c), from: near, to: near}
	p.flow.first = true
	large, small := walFrame(0x3000000, 100_000), walFrame(0x3000000, 100)
	slot := protocol.AppendSlotFrame(nil, 0x3000000, 0, append([]byte(protocol.SlotMagic), make([]byte, 100_000)...))
	for _, tt := range []struct {
		name string
		b    []byte
		want int
	}{
		{"a small frame", small, bufferSize},
		{"a large frame", large, largeHead},
		{"a large frame but for 10 bytes", large[:len(large)-10], 10 + largeHead},
		{"its end", large[len(large)-10:], largeHead},
		{"a slot message but for its end", slot[:1000], bufferSize},
		{"its end", slot[1000:], bufferSize},
		{"a large frame and a small one", append(large[:len(large):len(large)], small...), bufferSize},
	} {
		if v := p.flow.Scan(tt.b); v.Used != len(tt.b) || v.Err != nil {
			t.Fatalf("%s: %d bytes used, %v", tt.name, v.Used, v.Err)
		}
		if got := p.readSize(); got != tt.want {
			t.Errorf("%s: reads %d, want %d", tt.name, got, tt.want)
		}
	}
}
