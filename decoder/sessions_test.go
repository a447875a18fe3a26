package decoder

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// However many databases have slots, no more sessions are kept than there may be.
func TestIdleSessionsMakeRoom(t *testing.T) {
	s, err := newSessions("host=localhost", 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := new(pgx.Conn), new(pgx.Conn), new(pgx.Conn)
	if out := append(s.keep("x", a), s.keep("x", b)...); len(out) != 0 || s.kept != 2 {
		t.Fatalf("%d of 2 had to go, %d kept", len(out), s.kept)
	}
	if out := s.keep("y", c); len(out) != 2 || s.kept != 1 {
		t.Errorf("%d had to go, %d kept", len(out), s.kept)
	}
	if s.pop("x") != nil || s.pop("y") != c || s.pop("y") != nil || s.kept != 0 {
		t.Errorf("%d kept, idle %v", s.kept, s.idle)
	}
}
