package trace

import (
	"strconv"
	"unicode/utf8"

	"github.com/slotferry/slotferry/protocol"
)

const hexDigits = "0123456789abcdef"

// encoder appends named values as text, name=value, or as JSON. What describes
// itself does so once for both.
type encoder struct {
	b       []byte
	json    bool
	between bool // something stands before the next value
}

func (e *encoder) name(name string) {
	if e.between {
		if e.json {
			e.b = append(e.b, ',')
		} else {
			e.b = append(e.b, ' ')
		}
	}
	e.between = true
	if name == "" {
		return
	}
	if e.json {
		e.b = append(e.b, '"')
		e.b = append(e.b, name...)
		e.b = append(e.b, '"', ':')
		return
	}
	e.b = append(e.b, name...)
	e.b = append(e.b, '=')
}

func (e *encoder) num(name string, v uint64) {
	e.name(name)
	e.b = strconv.AppendUint(e.b, v, 10)
}

func (e *encoder) int(name string, v int64) {
	e.name(name)
	e.b = strconv.AppendInt(e.b, v, 10)
}

func (e *encoder) flag(name string, v bool) {
	e.name(name)
	e.b = strconv.AppendBool(e.b, v)
}

func (e *encoder) lsn(name string, v protocol.LSN) {
	e.name(name)
	if e.json {
		e.b = append(appendLSN(append(e.b, '"'), v), '"')
		return
	}
	e.b = appendLSN(e.b, v)
}

// appendLSN appends what LSN.String returns.
func appendLSN(b []byte, v protocol.LSN) []byte {
	b = appendUpperHex(b, uint32(v>>32))
	return appendUpperHex(append(b, '/'), uint32(v))
}

func appendUpperHex(b []byte, v uint32) []byte {
	shift := 28
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, "0123456789ABCDEF"[v>>shift&15])
	}
	return b
}

// micros writes a time of the wire, in UTC and as the number it is.
func (e *encoder) micros(name string, v int64) {
	if e.json {
		e.name(name)
		e.b = append(appendTime(append(e.b, '"'), v), '"')
		e.int(name+"_raw", v)
		return
	}
	e.name(name)
	e.b = append(appendTime(e.b, v), '(')
	e.b = append(strconv.AppendInt(e.b, v, 10), ')')
}

// appendTime appends microseconds since 2000-01-01 UTC by RFC 3339.
func appendTime(b []byte, v int64) []byte {
	return protocol.Time(v).AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
}

// str writes a text. What is no text stands as \x and two hexadecimal digits,
// and a backslash stands doubled.
func (e *encoder) str(name, v string) {
	e.name(name)
	if e.json {
		e.b = append(e.b, '"')
		e.b = appendEscaped(e.b, v, true)
		e.b = append(e.b, '"')
		return
	}
	if plain(v) {
		e.b = append(e.b, v...)
		return
	}
	e.b = append(e.b, '"')
	e.b = appendEscaped(e.b, v, false)
	e.b = append(e.b, '"')
}

// plain reports whether a text needs no quotes: it stands for itself between
// spaces.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c >= 0x7F, c == '"', c == '=', c == '\\', c == '{', c == '}', c == '[', c == ']', c == ',':
			return false
		}
	}
	return s != ""
}

// appendEscaped appends a text between quotes. A JSON string in which the same
// text stands has each backslash doubled once more.
func appendEscaped(b []byte, s string, json bool) []byte {
	backslash := func(rest ...byte) {
		b = append(b, '\\')
		if json {
			b = append(b, '\\')
		}
		b = append(b, rest...)
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		c := s[i]
		switch {
		case r == utf8.RuneError && n == 1, r < ' ', r == 0x7F:
			backslash('x', hexDigits[c>>4], hexDigits[c&15])
		case c == '\\':
			backslash('\\')
			if json {
				b = append(b, '\\')
			}
		case c == '"':
			b = append(b, '\\', '"')
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return b
}

// hex writes bytes that are not understood, at most limit of them.
func (e *encoder) hex(name string, v []byte, limit int) {
	e.name(name)
	if e.json {
		e.b = append(e.b, '"')
	}
	for _, c := range v[:min(len(v), limit)] {
		e.b = append(e.b, hexDigits[c>>4], hexDigits[c&15])
	}
	if e.json {
		e.b = append(e.b, '"')
	}
	if len(v) > limit {
		e.num(name+"_length", uint64(len(v)))
	}
}

// list and object, each closed by end, nest values.
func (e *encoder) list(name string) { e.open(name, '[') }

func (e *encoder) object(name string) { e.open(name, '{') }

func (e *encoder) open(name string, c byte) {
	e.name(name)
	e.b = append(e.b, c)
	e.between = false
}

func (e *encoder) end(c byte) {
	e.b = append(e.b, c)
	e.between = true
}

func (e *encoder) null(name string) {
	e.name(name)
	e.b = append(e.b, "null"...)
}
