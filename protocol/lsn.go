package protocol

import (
	"errors"
	"fmt"
	"strings"
)

// LSN is a byte position in the write-ahead log, PostgreSQL's XLogRecPtr.
type LSN uint64

// InvalidLSN is 0/0, PostgreSQL's InvalidXLogRecPtr. It stands for NULL where
// a catalog column may be NULL, and in XLogData.DataStart it marks a slot
// message.
const InvalidLSN LSN = 0

// ErrLSNSyntax is the cause of every error of ParseLSN.
var ErrLSNSyntax = errors.New("want two hexadecimal halves of 1 to 8 digits, as in 16/B374D848")

// ParseLSN reads the text form of an LSN: two hexadecimal numbers of one to
// eight digits each with a slash between, in upper or lower case. Signs,
// spaces, prefixes and trailing text are refused, as pg_lsn_in_internal
// (pg_lsn.c) refuses them.
func ParseLSN(s string) (LSN, error) {
	high, low, ok := strings.Cut(s, "/")
	if !ok {
		return InvalidLSN, fmt.Errorf("parse LSN %q: %w", s, ErrLSNSyntax)
	}
	h, okHigh := parseHalf(high)
	l, okLow := parseHalf(low)
	if !okHigh || !okLow {
		return InvalidLSN, fmt.Errorf("parse LSN %q: %w", s, ErrLSNSyntax)
	}
	return LSN(h)<<32 | LSN(l), nil
}

func parseHalf(s string) (uint32, bool) {
	if len(s) < 1 || len(s) > 8 {
		return 0, false
	}
	var v uint32
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint32(c)
	}
	return v, true
}

// String prints the LSN as PostgreSQL up to 18 does: %X/%X.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// MarshalText prints the LSN for JSON and other text formats.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote, by the rules of ParseLSN.
func (l *LSN) UnmarshalText(text []byte) error {
	v, err := ParseLSN(string(text))
	if err != nil {
		return err
	}
	*l = v
	return nil
}
