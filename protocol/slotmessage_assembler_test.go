package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is lost, repeated, reordered, damaged or mixed: a message comes out
// exactly when the parts just fed are all parts of one message, in order.
func TestAssemblerAgainstReference(t *testing.T) {
	type split struct {
		m      *SlotMessage
		bodies [][]byte
	}
	rapid.Check(t, func(rt *rapid.T) {
		var splits []split
		for range rapid.IntRange(1, 3).Draw(rt, "messages") {
			m := drawMessage(rt)
			for range rapid.IntRange(1, 2).Draw(rt, "splits") {
				payload := len(m.appendPayload(nil))
				size := rapid.IntRange(max(1, payload/5), payload).Draw(rt, "size")
				splits = append(splits, split{m, mustParts(t, m, size+partHeaderLen+crcLen)})
			}
		}
		var a Assembler
		var fed [][]byte
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			s := splits[rapid.IntRange(0, len(splits)-1).Draw(rt, "split")]
			from := rapid.IntRange(0, len(s.bodies)-1).Draw(rt, "from")
			to := rapid.IntRange(from, len(s.bodies)).Draw(rt, "to")
			if rapid.Bool().Draw(rt, "whole") {
				from, to = 0, len(s.bodies)
			}
			for _, body := range s.bodies[from:to] {
				if rapid.IntRange(0, 19).Draw(rt, "damage") == 0 {
					body = bytes.Clone(body)
					body[rapid.IntRange(0, len(body)-1).Draw(rt, "byte")] ^= 1
				}
				fed = append(fed, body)
				got, err := a.Add(body)
				var want *SlotMessage
				for _, s := range splits {
					n := len(s.bodies)
					if len(fed) >= n && slices.EqualFunc(fed[len(fed)-n:], s.bodies, bytes.Equal) {
						want = s.m
					}
				}
				if !reflect.DeepEqual(got, want) || (got != nil && err != nil) {
					rt.Fatalf("after %d parts: %+v, %v, want %+v", len(fed), got, err, want)
				}
			}
		}
	})
}

func TestAssemblerRefusesAndStartsAnew(t *testing.T) {
	m := manySlots(2)
	p := mustParts(t, m, 200)
	if len(p) != 3 {
		t.Fatalf("%d parts, want 3", len(p))
	}
	other := manySlots(2)
	other.Sequence++
	q := mustParts(t, other, 200)
	for _, tt := range []struct {
		name string
		in   [][]byte
		want error // of the last part fed
	}{
		{"first part lost", [][]byte{p[1]}, ErrInvalid},
		{"middle part lost", [][]byte{p[0], p[2]}, ErrInvalid},
		{"part repeated", [][]byte{p[0], p[1], p[1]}, ErrInvalid},
		{"parts swapped", [][]byte{p[0], p[2], p[1]}, ErrInvalid},
		{"parts of two messages", [][]byte{p[0], q[1]}, ErrInvalid},
		{"nothing after a refusal counts", [][]byte{p[0], q[1], p[1]}, ErrInvalid},
		{"damaged part", [][]byte{p[0], append(bytes.Clone(p[1]), 0)}, ErrChecksum},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a Assembler
			var err error
			for _, body := range tt.in {
				_, err = a.Add(body)
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("last part: %v, want %v", err, tt.want)
			}
			for i, body := range p {
				got, err := a.Add(body)
				if err != nil || (got != nil) != (i == len(p)-1) {
					t.Fatalf("a whole message after it, part %d: %v, %v", i, got, err)
				}
			}
		})
	}
}

// Parts that are each whole, but whose chunks are not those of the payload the
// header speaks of.
func TestAssemblerChecksTheWholePayload(t *testing.T) {
	payload := manySlots(0).appendPayload(nil)
	good := Part{Version: 1, Count: 1, PayloadLen: uint32(len(payload)), PayloadCRC: checksum(payload), Chunk: payload}
	for name, change := range map[string]func(*Part){
		"too short": func(p *Part) { p.Chunk = payload[1:] },
		"wrong crc": func(p *Part) { p.PayloadCRC ^= 1 },
	} {
		bad := good
		change(&bad)
		var a Assembler
		if got, err := a.Add(bad.Append(nil)); got != nil || !errors.Is(err, ErrChecksum) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, ErrChecksum)
		}
	}
}

// The caller reads the next frame into the same buffer.
func TestAssemblerKeepsNothingOfItsCaller(t *testing.T) {
	want := manySlots(3)
	var a Assembler
	var got *SlotMessage
	buf := make([]byte, MaxPartBody)
	for _, body := range mustParts(t, want, 100) {
		n := copy(buf, body)
		m, err := a.Add(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
		got = m
		clear(buf)
	}
	if a.next.Chunk != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("message changed with the caller's buffer")
	}
}

// FuzzAssembler feeds a sequence of bodies, each behind one byte: its length,
// or 0 for a body that is a whole message of the rest, sealed. What comes out
// must have a wire form that gives the same message.
func FuzzAssembler(f *testing.F) {
	var in []byte
	for _, body := range mustParts(f, manySlots(2), 100) {
		in = append(append(in, byte(len(body))), body...)
	}
	f.Add(in)
	f.Add(append([]byte{0}, manySlots(2).appendPayload(nil)...))
	f.Add(append([]byte{0}, fromTheFuture(manySlots(1))...))
	f.Fuzz(func(t *testing.T, in []byte) {
		var a Assembler
		for len(in) > 0 {
			n := min(int(in[0]), len(in)-1)
			body := in[1 : 1+n]
			if n == 0 {
				body = inOnePart(in[1:])
				n = len(in) - 1
			}
			in = in[1+n:]
			m, err := a.Add(body)
			if m == nil {
				continue
			}
			if err != nil {
				t.Fatalf("a message and an error: %v", err)
			}
			again, err := assemble(mustParts(t, m, 0))
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("round trip = %+v, %v, want %+v", again, err, m)
			}
		}
	})
}
