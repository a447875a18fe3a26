package protocol

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// Every single bit that is wrong is noticed, and the part is stripped unless
// the magic itself is gone.
func TestPartRefusesEveryBitFlip(t *testing.T) {
	for _, m := range []*SlotMessage{{}, manySlots(2)} {
		body := mustParts(t, m, 0)[0]
		for bit := range 8 * len(body) {
			bad := bytes.Clone(body)
			bad[bit/8] ^= 1 << (bit % 8)
			want := ErrChecksum
			switch {
			case bit/8 < len(SlotMagic):
				want = ErrMagic
			case bit/8 < len(SlotMagic)+2:
				want = ErrVersion
			}
			var p Part
			if err := p.Decode(bad); !errors.Is(err, want) {
				t.Fatalf("bit %d flipped: Decode = %v, want %v", bit, err, want)
			}
			if got := HasSlotMagic(bad); got != (want != ErrMagic) {
				t.Fatalf("bit %d flipped: HasSlotMagic = %v", bit, got)
			}
		}
	}
}

func TestPartRefusesEveryTruncation(t *testing.T) {
	body := mustParts(t, manySlots(2), 0)[0]
	for n := range len(body) {
		want := ErrChecksum
		if n < partHeaderLen+crcLen {
			want = ErrTruncated
		}
		var p Part
		if err := p.Decode(body[:n]); !errors.Is(err, want) {
			t.Errorf("%d of %d bytes: Decode = %v, want %v", n, len(body), err, want)
		}
	}
	var p Part
	if err := p.Decode(append(body, 0)); !errors.Is(err, ErrChecksum) {
		t.Errorf("one byte too many: Decode = %v, want %v", err, ErrChecksum)
	}
}

func TestPartRefusesHeader(t *testing.T) {
	good := Part{Version: 1, Epoch: 2, Sequence: 3, Number: 1, Count: 2, PayloadLen: 9, Chunk: []byte("abc")}
	for _, tt := range []struct {
		name   string
		change func(*Part)
		want   error
		offset int
	}{
		{"version 0", func(p *Part) { p.Version = 0 }, ErrVersion, 8},
		{"version 2", func(p *Part) { p.Version = 2 }, ErrVersion, 8},
		{"version 2 and empty", func(p *Part) { *p = Part{Version: 2} }, ErrVersion, 8},
		{"number past the count", func(p *Part) { p.Number = 2 }, ErrInvalid, 26},
		{"no parts", func(p *Part) { p.Number, p.Count = 0, 0 }, ErrInvalid, 26},
		{"empty chunk", func(p *Part) { p.Chunk = nil }, ErrTruncated, 38},
		{"chunk longer than the payload", func(p *Part) { p.PayloadLen = 2 }, ErrInvalid, 30},
		{"payload above the cap", func(p *Part) { p.PayloadLen = MaxPayload + 1 }, ErrTooLarge, 30},
		{"payload of 4 GiB", func(p *Part) { p.PayloadLen = math.MaxUint32 }, ErrTooLarge, 30},
		{"body above the cap", func(p *Part) { p.Chunk = make([]byte, MaxPartBody) }, ErrTooLarge, MaxPartBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := good
			tt.change(&bad)
			var p Part
			if got := offsetOf(t, p.Decode(bad.Append(nil)), tt.want); got != tt.offset {
				t.Errorf("offset = %d, want %d", got, tt.offset)
			}
		})
	}
}

// A later version may be laid out in any way behind its number.
func TestUnknownVersionIsStrippedUnread(t *testing.T) {
	body := []byte(SlotMagic + "\x00\x02?")
	var p Part
	if err := p.Decode(body); !errors.Is(err, ErrVersion) || p.Version != 2 {
		t.Errorf("Decode = %v, version %d, want %v, version 2", err, p.Version, ErrVersion)
	}
	if !HasSlotMagic(body) {
		t.Error("HasSlotMagic = false")
	}
}

func TestHasSlotMagic(t *testing.T) {
	for in, want := range map[string]bool{
		"": false, "SLTFERR": false, "SLTFERRY": true, "SLTFERRY\x00\x01": true, "sltferry": false, "xSLTFERRY": false,
	} {
		if got := HasSlotMagic([]byte(in)); got != want {
			t.Errorf("HasSlotMagic(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestAppendSlotFrame(t *testing.T) {
	want := "before" + "d\x00\x00\x00\x20" + "w" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x02\x03\xf4\x2b\x70" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "xyz"
	if got := AppendSlotFrame([]byte("before"), 0x203F42B70, 7, []byte("xyz")); string(got) != want {
		t.Errorf("AppendSlotFrame = % x, want % x", got, want)
	}
}

func TestPartsDoNotAllocate(t *testing.T) {
	body := mustParts(t, manySlots(10), 0)[0]
	var p Part
	if n := testing.AllocsPerRun(100, func() {
		if p.Decode(body) != nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("Part.Decode makes %v allocations, want 0", n)
	}
	buf := make([]byte, 0, 2*len(body))
	if n := testing.AllocsPerRun(100, func() { p.Append(buf) }); n != 0 {
		t.Errorf("Part.Append makes %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { AppendSlotFrame(buf, 1, 2, body) }); n != 0 {
		t.Errorf("AppendSlotFrame makes %v allocations, want 0", n)
	}
}

// FuzzPart checks that decoding never panics, and that what decodes is encoded
// to the same bytes. A second seal with the right checksum lets the fuzzer get
// behind it.
func FuzzPart(f *testing.F) {
	for _, body := range [][]byte{{}, mustParts(f, &SlotMessage{}, 0)[0], mustParts(f, manySlots(2), 100)[1]} {
		f.Add(body, false)
		f.Add(body[:max(0, len(body)-crcLen)], true)
	}
	r := readRecorded(f)
	addSeeds(f, r.slotMessages(), func(seed []byte) { f.Add(seed, false); f.Add(seed[:len(seed)-crcLen], true) })
	f.Fuzz(func(t *testing.T, src []byte, seal bool) {
		if seal {
			src = sealed(src)
		}
		var p Part
		if err := p.Decode(src); err != nil {
			var e *MessageError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(src) {
				t.Fatalf("Decode(% x) = %v", src, err)
			}
			return
		}
		if again := p.Append(nil); !bytes.Equal(again, src) {
			t.Fatalf("Append(Decode(% x)) = % x", src, again)
		}
	})
}

// sealed returns src with its CRC-32C behind it.
func sealed(src []byte) []byte {
	sum := checksum(src)
	return append(bytes.Clone(src), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
}
