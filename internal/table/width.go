package table

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Width is the number of columns a terminal uses for a printable text: two for
// the wide characters of East Asia, none for marks that join the one before.
func Width(text string) int {
	n := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case wide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

func wide(r rune) bool {
	k := width.LookupRune(r).Kind()
	return k == width.EastAsianWide || k == width.EastAsianFullwidth
}

// Printable returns the text with every byte and character that a terminal might
// act upon, or that is not valid UTF-8, written out as \x or \u.
func Printable(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size <= 1, r < utf8.RuneSelf && unprintable(r):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unprintable(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unprintable are control characters, and those that turn the direction of text.
func unprintable(r rune) bool { return !unicode.IsPrint(r) && !unicode.In(r, unicode.Mn, unicode.Me) }
