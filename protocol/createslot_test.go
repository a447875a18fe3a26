package protocol

import (
	"errors"
	"testing"
)

func TestCreateReplicationSlotRow(t *testing.T) {
	const point = "\x00\x00\x00\x09" + "0/16B3748"
	for in, want := range map[string]CreateReplicationSlotRow{
		"\x00\x04\x00\x00\x00\x03sub" + point + "\xff\xff\xff\xff\x00\x00\x00\x08pgoutput": {"sub", 0x16B3748},
		"\x00\x04\x00\x00\x00\x01p\x00\x00\x00\x030/0\xff\xff\xff\xff\xff\xff\xff\xff":     {"p", 0},
		"\x00\x02\x00\x00\x00\x01p" + point:                                                {"p", 0x16B3748},
	} {
		var m CreateReplicationSlotRow
		if err := m.Decode([]byte(in)); err != nil || m != want {
			t.Errorf("Decode(%q) = %+v, %v, want %+v", in, m, err, want)
		}
	}
	for _, in := range []string{
		"", "\x00\x01\x00\x00\x00\x01p", "\x00\x02\x00\x00\x00\x01p\xff\xff\xff\xff", "\x00\x02\x00\x00\x00\x01p\x00\x00\x00\x011",
		"\x00\x02\x00\x00\x00\x01p" + point + "x", "\x00\x03\x00\x00\x00\x01p" + point,
	} {
		var m CreateReplicationSlotRow
		var e *MessageError
		if err := m.Decode([]byte(in)); !errors.As(err, &e) {
			t.Errorf("Decode(%q) = %+v, %v, want a MessageError", in, m, err)
		}
	}
}

func FuzzCreateReplicationSlotRow(f *testing.F) {
	f.Add([]byte("\x00\x02\x00\x00\x00\x01p\x00\x00\x00\x030/9"))
	f.Fuzz(func(_ *testing.T, src []byte) {
		var m CreateReplicationSlotRow
		_ = m.Decode(src) // must not panic
	})
}
