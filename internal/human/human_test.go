package human

import (
	"math"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for _, test := range []struct {
		n    uint64
		want string
	}{
		{0, "0 B"}, {512, "512 B"}, {10239, "10239 B"}, {10240, "10 kB"}, {16 << 20, "16 MB"},
		{1 << 30, "1024 MB"}, {1 << 40, "1024 GB"}, {math.MaxUint64, "16 EB"},
	} {
		if got := Bytes(test.n); got != test.want {
			t.Errorf("Bytes(%d) = %q, want %q", test.n, got, test.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {0, "0s"}, {350 * time.Millisecond, "350ms"}, {12500 * time.Millisecond, "12s"},
		{200 * time.Second, "3m20s"}, {125 * time.Minute, "2h5m"}, {99 * time.Hour, "4d3h"},
	} {
		if got := Duration(test.d); got != test.want {
			t.Errorf("Duration(%v) = %q, want %q", test.d, got, test.want)
		}
	}
}
