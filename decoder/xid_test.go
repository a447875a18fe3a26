package decoder

import "testing"

// TestXidPrecedesOrEquals compares around the end of the xid space: the 2^31
// xids before one are its past.
func TestXidPrecedesOrEquals(t *testing.T) {
	for _, tc := range []struct {
		a, b uint32
		want bool
	}{
		{700, 700, true},
		{700, 701, true},
		{701, 700, false},
		{4294967290, 5, true},
		{5, 4294967290, false},
		{4294967295, 4294967295, true},
		{3, 3 + 1<<31 - 1, true},
		{3 + 1<<31 - 1, 3, false},
		{1 << 31, 1<<31 + 1, true},
		{1<<31 - 1, 1 << 31, true},
	} {
		if got := xidPrecedesOrEquals(tc.a, tc.b); got != tc.want {
			t.Errorf("xidPrecedesOrEquals(%d, %d) = %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}
