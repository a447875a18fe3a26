package conninfo

import (
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// minSecret is the length in bytes from which a Redactor looks for a secret in
// other text. A shorter one would be found in half of all words, and masking it
// there would tell what it is.
const minSecret = 4

// Redactor masks known secrets. It is safe for concurrent use.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor knows the secrets of the given conninfos: those written in them,
// and those that libpq's password file, service file and environment add.
func NewRedactor(conninfos ...string) *Redactor {
	var secrets []string
	for _, c := range conninfos {
		for _, s := range Secrets(c) {
			secrets = append(secrets, c[s.Start:s.End])
		}
		if config, err := pgconn.ParseConfig(c); err == nil {
			secrets = append(secrets, config.Password)
		}
	}
	return newRedactor(secrets)
}

// newRedactor masks each secret in the spellings it may take on its way.
func newRedactor(secrets []string) *Redactor {
	var spellings []string
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		spellings = append(spellings, s, url.QueryEscape(s), url.PathEscape(s))
		spellings = append(spellings, quoted(s, true), quoted(s, false))
		if plain, err := url.PathUnescape(s); err == nil && len(plain) >= minSecret {
			spellings = append(spellings, plain)
		}
	}
	// Longer ones first: a secret that begins with another must go whole.
	slices.SortFunc(spellings, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range slices.Compact(spellings) {
		pairs = append(pairs, s, Mask)
	}
	return &Redactor{replacer: strings.NewReplacer(pairs...)}
}

// quoted is a secret as JSON has it between quotes: with <, > and & escaped, as
// encoding/json does by itself, or without, as zerolog does.
func quoted(s string, escapeHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	_ = e.Encode(s) // a string and a Builder do not fail
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
}

// Redact returns the text with every known secret, and the secrets of every
// conninfo in it, masked.
func (r *Redactor) Redact(text string) string { return r.replacer.Replace(Redact(text)) }

// Writer returns a writer that masks known secrets on their way to w. A secret
// must not be split between two writes.
func (r *Redactor) Writer(w io.Writer) io.Writer { return &redactingWriter{r.replacer, w} }

type redactingWriter struct {
	replacer *strings.Replacer
	w        io.Writer
}

// Write reports the length it was given, not that of what it wrote.
func (w *redactingWriter) Write(p []byte) (int, error) {
	if _, err := w.replacer.WriteString(w.w, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
