package protocol

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// maxText is the most bytes a text can have on the wire, behind its Int16
// length. PostgreSQL's names have at most 63 and a GID at most 199.
const maxText = math.MaxUint16

// A textFunc is called with a text and the place where it stands: slots[3].
// It may change the text.
type textFunc func(list string, i int, s *string) error

// eachText calls f with every text of the message until one call fails.
func (m *SlotMessage) eachText(f textFunc) error {
	for i := range m.Slots {
		s := &m.Slots[i]
		for _, p := range [...]*string{&s.Name, &s.Plugin, &s.Database, &s.InvalidationReason, &s.WALStatus} {
			if err := f("slots", i, p); err != nil {
				return err
			}
		}
	}
	for i := range m.PhysicalSlots {
		if err := f("physical_slots", i, &m.PhysicalSlots[i].Name); err != nil {
			return err
		}
	}
	for i := range m.OpenTransactions {
		if err := f("open_transactions", i, &m.OpenTransactions[i].Database); err != nil {
			return err
		}
	}
	for i := range m.PreparedTransactions {
		p := &m.PreparedTransactions[i]
		for _, p := range [...]*string{&p.Database, &p.GID} {
			if err := f("prepared_transactions", i, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachText calls f with every text of the report until one call fails.
func (m *HelperReport) eachText(f textFunc) error {
	if err := f("standby", 0, &m.Standby); err != nil {
		return err
	}
	for i := range m.Slots {
		s := &m.Slots[i]
		for _, p := range [...]*string{&s.Name, &s.State, &s.Reason} {
			if err := f("slots", i, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLength refuses a text that the wire form would have to cut: a name that
// was cut is another slot's.
func checkLength(list string, i int, s *string) error {
	if len(*s) > maxText {
		return fmt.Errorf("%s[%d]: text of %d bytes: %w", list, i, len(*s), ErrTooLarge)
	}
	return nil
}

// escapeText makes a text fit for JSON, which knows only UTF-8, while names in
// PostgreSQL's shared catalogs have no encoding: a byte that is no part of
// valid UTF-8 becomes \x and two hexadecimal digits, a backslash becomes two.
func escapeText(_ string, _ int, s *string) error {
	if utf8.ValidString(*s) && !strings.Contains(*s, `\`) {
		return nil
	}
	var b strings.Builder
	for in := *s; in != ""; {
		r, n := utf8.DecodeRuneInString(in)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, in[0])
		case r == '\\':
			b.WriteString(`\\`)
		default:
			b.WriteString(in[:n])
		}
		in = in[n:]
	}
	*s = b.String()
	return nil
}

// unescapeText is the exact inverse of escapeText: what escapeText does not
// write is refused.
func unescapeText(list string, i int, s *string) error {
	var b strings.Builder
	for in := *s; in != ""; {
		plain, rest, escaped := strings.Cut(in, `\`)
		b.WriteString(plain)
		in = rest
		switch {
		case !escaped:
		case strings.HasPrefix(in, `\`):
			b.WriteByte('\\')
			in = in[1:]
		case strings.HasPrefix(in, "x") && len(in) >= 3:
			v, err := hex.DecodeString(in[1:3])
			if err != nil {
				return fmt.Errorf("%s[%d]: escape in %q: %w", list, i, *s, ErrInvalid)
			}
			b.Write(v)
			in = in[3:]
		default:
			return fmt.Errorf("%s[%d]: escape in %q: %w", list, i, *s, ErrInvalid)
		}
	}
	text := b.String()
	again := text
	if err := escapeText(list, i, &again); err != nil {
		return err
	}
	if again != *s {
		return fmt.Errorf("%s[%d]: escape in %q: %w", list, i, *s, ErrInvalid)
	}
	*s = text
	return nil
}
