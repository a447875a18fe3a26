package protocol

import (
	"errors"
	"testing"
)

func TestParseLSN(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want LSN
	}{
		{"0/0", 0},
		{"A/0", 0xA00000000},
		{"B/4D000000", 0xB4D000000},
		{"2/3F42B70", 0x203F42B70},
		{"2/03F42B70", 0x203F42B70},
		{"00000002/03f42b70", 0x203F42B70},
		{"FFFFFFFF/FFFFFFFF", 0xFFFFFFFFFFFFFFFF},
		{"ff/00ff", 0xFF000000FF},
	} {
		if got, err := ParseLSN(tt.in); err != nil || got != tt.want {
			t.Errorf("ParseLSN(%q) = %v, %v, want %v", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{
		"", "/", "1/", "/1", "123456789/0", "0/123456789", "0x1/0", "-1/0", "+1/0", "1/0 ", " 1/0", "1 /0", "1/0/0",
		"0/16B3748junk", "1", "G/0", "1/0\x00",
	} {
		if got, err := ParseLSN(in); !errors.Is(err, ErrLSNSyntax) || got != InvalidLSN {
			t.Errorf("ParseLSN(%q) = %v, %v, want ErrLSNSyntax", in, got, err)
		}
	}
}

func FuzzParseLSN(f *testing.F) {
	f.Add("16/B374D848")
	f.Add("0/1FFFFFFFFF")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLSN(s)
		if err != nil {
			return
		}
		if again, err := ParseLSN(l.String()); err != nil || again != l {
			t.Errorf("ParseLSN(%q.String()) = %v, %v, want %v", s, again, err, l)
		}
	})
}
