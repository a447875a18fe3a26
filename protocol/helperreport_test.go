package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgio"
	"pgregory.net/rapid"
)

// mustReport encodes a report that must have a wire form, and returns the
// message body.
func mustReport(t testing.TB, m *HelperReport) []byte {
	t.Helper()
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b[1:]
}

func TestHelperReportRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawReport(rt)
		var got HelperReport
		if err := got.Decode(mustReport(t, want)); err != nil || !reflect.DeepEqual(&got, want) {
			rt.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestHelperReportGolden(t *testing.T) {
	m := HelperReport{
		SystemIdentifier: 258, Standby: "ph1", SnapshotRequest: 3,
		Slots: []SlotReport{{Name: "a", State: "ready"}},
	}
	fields := "\x00\x00\x00\x00\x00\x00\x01\x02" + "\x00\x03ph1" + "\x00\x00\x00\x00\x00\x00\x00\x03" +
		"\x00\x00\x00\x01" + "\x00\x00\x00\x0c" + "\x00\x01a" + "\x00\x05ready" + "\x00\x00"
	want := "before" + "f" + string(sealed([]byte(SlotMagic+"\x00\x01"+fields)))
	if got, err := m.Append([]byte("before")); err != nil || string(got) != want {
		t.Errorf("Append = % x, %v, want % x", got, err, want)
	}
}

func TestHelperReportIsStrict(t *testing.T) {
	body := mustReport(t, &HelperReport{Standby: "ph1", Slots: []SlotReport{{Name: "a"}, {Name: "b"}}})
	const opening = 10
	for n := range len(body) {
		want := ErrChecksum
		if n < opening+crcLen {
			want = ErrTruncated
		}
		var m HelperReport
		if err := m.Decode(body[:n]); !errors.Is(err, want) {
			t.Errorf("%d of %d bytes: Decode = %v, want %v", n, len(body), err, want)
		}
		if n < opening || n >= len(body)-crcLen {
			continue
		}
		if err := m.Decode(sealed(body[:n])); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d of %d bytes, sealed: Decode = %v, want %v", n, len(body), err, ErrTruncated)
		}
	}
	for bit := range 8 * len(body) {
		bad := bytes.Clone(body)
		bad[bit/8] ^= 1 << (bit % 8)
		want := ErrChecksum
		switch {
		case bit/8 < len(SlotMagic):
			want = ErrMagic
		case bit/8 < opening:
			want = ErrVersion
		}
		var m HelperReport
		if err := m.Decode(bad); !errors.Is(err, want) {
			t.Errorf("bit %d flipped: Decode = %v, want %v", bit, err, want)
		}
	}
	var m HelperReport
	if err := m.Decode(append(body, 0)); !errors.Is(err, ErrChecksum) {
		t.Errorf("one byte too many: Decode = %v, want %v", err, ErrChecksum)
	}
}

// An old relay reads a new helper.
func TestHelperReportSkipsUnknownOptionalFields(t *testing.T) {
	want := HelperReport{
		SystemIdentifier: 1, Standby: "ph1", Slots: []SlotReport{{"a", "ready", ""}, {"b", "pending", "x"}},
	}
	b := []byte(SlotMagic + "\x00\x01")
	b = pgio.AppendUint64(b, want.SystemIdentifier)
	b = appendText(b, want.Standby)
	b = pgio.AppendUint64(b, 0)
	b = appendRecords(b, want.Slots, func(s *SlotReport, b []byte) []byte { return appendOptional(s.append(b), 5, "new") })
	b = appendOptional(b, 6, "newer")
	var got HelperReport
	if err := got.Decode(sealed(b)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Decode = %+v, %v, want %+v", got, err, want)
	}
}

// A report beyond the cap was sent, and ended the helper's session each time.
func TestHelperReportRefusesToExceedItsCap(t *testing.T) {
	reports := func(n int, name string) *HelperReport {
		return &HelperReport{Slots: slices.Repeat([]SlotReport{{name, "pending", strings.Repeat("r", 40)}}, n)}
	}
	name := strings.Repeat("n", 63)
	if body := mustReport(t, reports(8000, name)); len(body) >= MaxHelperReport {
		t.Errorf("8,000 slots take %d bytes", len(body))
	}
	for what, m := range map[string]*HelperReport{
		"slots":   reports(20_000, name),
		"reason":  {Slots: []SlotReport{{Reason: strings.Repeat("x", maxText+1)}}},
		"standby": {Standby: strings.Repeat("x", maxText+1)},
	} {
		if got, err := m.Append([]byte("before")); !errors.Is(err, ErrTooLarge) || string(got) != "before" {
			t.Errorf("%s: Append = %d bytes, %v, want %v", what, len(got), err, ErrTooLarge)
		}
	}
	var m HelperReport
	big := sealed(append([]byte(SlotMagic+"\x00\x01"), make([]byte, MaxHelperReport)...))
	if err := m.Decode(big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Decode of %d bytes = %v, want %v", len(big), err, ErrTooLarge)
	}
}

func TestHelperReportClaimsDoNotAllocate(t *testing.T) {
	const size = 1<<20 - 100
	head := append([]byte(SlotMagic+"\x00\x01"), make([]byte, 8+2+8)...)
	for _, count := range []uint32{size / minSlotReport, 1 << 31, 1<<32 - 1} {
		body := sealed(append(pgio.AppendUint32(head, count), make([]byte, size)...))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var m HelperReport
		err := m.Decode(body)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("count %d was accepted", count)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*size {
			t.Errorf("count %d allocated %d bytes for an input of %d", count, got, size)
		}
	}
}

func TestHelperReportAppendDoesNotAllocate(t *testing.T) {
	m := &HelperReport{Standby: "ph1", Slots: []SlotReport{{Name: "a"}, {Name: "b"}}}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := m.Append(buf); err != nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("Append makes %v allocations, want 0", n)
	}
}

// FuzzHelperReport checks that decoding never panics, and that what decodes
// reads the same after a round trip, and to the same bytes unless it had
// optional fields.
func FuzzHelperReport(f *testing.F) {
	body := mustReport(f, &HelperReport{Standby: "ph1", Slots: []SlotReport{{Name: "a", State: "ready"}}})
	f.Add(body, false)
	f.Add(body[:len(body)-crcLen], true)
	f.Add(appendOptional(body[:len(body)-crcLen:len(body)-crcLen], 1, "new"), true)
	f.Fuzz(func(t *testing.T, src []byte, seal bool) {
		if seal {
			src = sealed(src)
		}
		var m, n HelperReport
		if err := m.Decode(src); err != nil {
			var e *MessageError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(src) {
				t.Fatalf("Decode(% x) = %v", src, err)
			}
			return
		}
		again := mustReport(t, &m)
		if err := n.Decode(again); err != nil || !reflect.DeepEqual(n, m) {
			t.Fatalf("round trip = %+v, %v, want %+v", n, err, m)
		}
		if len(again) > len(src) || (len(again) == len(src) && !bytes.Equal(again, src)) {
			t.Fatalf("Append(Decode(% x)) = % x", src, again)
		}
	})
}
