package protocol

import (
	"errors"
	"testing"
)

func TestIdentifySystemRow(t *testing.T) {
	for in, want := range map[string]uint64{
		"\x00\x04\x00\x00\x00\x137000000000000000001\x00\x00\x00\x011": 7000000000000000001,
		"\x00\x01\x00\x00\x00\x0118446744073709551615":                 1, // what lies behind the column is not judged
		"\x00\x01\x00\x00\x00\x1418446744073709551615":                 1<<64 - 1,
	} {
		var m IdentifySystemRow
		if err := m.Decode([]byte(in)); err != nil || m.SystemIdentifier != want {
			t.Errorf("Decode(%q) = %d, %v, want %d", in, m.SystemIdentifier, err, want)
		}
	}
	for _, in := range []string{
		"", "\x00", "\x00\x04\x00\x00\x00", "\x00\x00\x00\x00\x00\x011", "\x00\x04\xff\xff\xff\xff7",
		"\x00\x01\x00\x00\x00\x00", "\x00\x01\x00\x00\x00\x02-1", "\x00\x01\x00\x00\x00\x141844674407370955161699",
	} {
		var m IdentifySystemRow
		var e *MessageError
		if err := m.Decode([]byte(in)); !errors.As(err, &e) {
			t.Errorf("Decode(%q) = %d, %v, want a MessageError", in, m.SystemIdentifier, err)
		}
	}
}

func FuzzIdentifySystemRow(f *testing.F) {
	f.Add([]byte("\x00\x04\x00\x00\x00\x137000000000000000001"))
	f.Fuzz(func(_ *testing.T, src []byte) {
		var m IdentifySystemRow
		_ = m.Decode(src) // must not panic
	})
}
