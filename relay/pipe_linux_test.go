package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
)

// wires returns both ends of a connection on loopback.
func wires(t *testing.T) (near *wire, far net.Conn) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	dialed, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return newWire(accepted), dialed
}

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
