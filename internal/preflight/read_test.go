package preflight

import (
	"errors"
	"testing"
)

// TestAttemptsSaidOnce: pgconn tries an address with and without TLS, and lists
// both on lines of their own.
func TestAttemptsSaidOnce(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"no such host", "no such host"},
		{"", ""},
		{"failed:\n\tdb1: refused\n\tdb1: refused", "failed: db1: refused"},
		{"failed:\n\tdb1: refused\n\tdb2: refused\n\tdb1: refused", "failed: db1: refused; db2: refused"},
	} {
		if got := attempts(errors.New(test.text)); got != test.want {
			t.Errorf("attempts(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}
