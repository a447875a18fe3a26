package conninfo

import (
	"regexp"
	"slices"
	"strings"
)

// Mask stands where a secret was.
const Mask = "***"

// secretKeys are the connection parameters whose values nobody may see.
const secretKeys = `(?:ssl)?password|scram_client_key|scram_server_key|oauth_client_secret`

// secretPatterns find secrets, each as its first group. They take rather too
// much than too little: an ill-formed conninfo hides nothing less.
var secretPatterns = []*regexp.Regexp{
	// postgres://user:SECRET@host, up to the last @: a secret that should have been
	// percent-encoded and was not may hold one, and spaces and slashes too.
	regexp.MustCompile(`(?is)postgres(?:ql)?://[^:@/]*:(.*)@`),
	// The same without a user that could be told apart, as in a damaged one.
	regexp.MustCompile(`(?i)postgres(?:ql)?://[^\s@]*?:([^\s@]*)@`),
	// ?password=SECRET and &password=SECRET
	regexp.MustCompile(`(?i)[?&](?:` + secretKeys + `)=([^&\s]*)`),
	// password = 'SECRET', where a quote that is never closed ends with the text.
	regexp.MustCompile(`(?is)(?:^|[^a-z_?&])(?:` + secretKeys + `)\s*=\s*'((?:[^'\\]|\\.)*)`),
	// password = SECRET
	regexp.MustCompile(`(?is)(?:^|[^a-z_?&])(?:` + secretKeys + `)\s*=\s*((?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)`),
}

// Span is where a secret lies in a text: text[Start:End].
type Span struct{ Start, End int }

// Secrets returns where the secrets of a conninfo lie, in order and without
// overlap.
func Secrets(text string) []Span {
	var spans []Span
	for _, p := range secretPatterns {
		for _, m := range p.FindAllStringSubmatchIndex(text, -1) {
			if m[2] < m[3] {
				spans = append(spans, Span{m[2], m[3]})
			}
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Start - b.Start })
	joined := spans[:0]
	for _, s := range spans {
		if n := len(joined); n > 0 && s.Start <= joined[n-1].End {
			joined[n-1].End = max(joined[n-1].End, s.End)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// Redact returns the text with the secrets of every conninfo in it masked. What
// has none comes back as it is.
func Redact(text string) string {
	spans := Secrets(text)
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.Start])
		b.WriteString(Mask)
		at = s.End
	}
	b.WriteString(text[at:])
	return b.String()
}
