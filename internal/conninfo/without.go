package conninfo

import (
	"iter"
	"regexp"
	"strings"
)

var secretKey = regexp.MustCompile(`(?i)^(?:` + secretKeys + `)$`)

// WithoutSecrets returns a conninfo without its passwords and their like: one that
// connects as before when they come from a password file. A text that has none
// comes back as it is; one that is not a conninfo, with what looks like a secret
// masked.
func WithoutSecrets(conninfo string) string {
	if len(Secrets(conninfo)) == 0 {
		return conninfo
	}
	cut := withoutPairs
	if isURI(conninfo) {
		cut = withoutUserinfo
	}
	if out := cut(conninfo); len(Secrets(out)) == 0 && Check(conninfo) == nil {
		return out
	}
	return Redact(conninfo)
}

// withoutUserinfo is for a URI: the password behind the user, and parameters.
func withoutUserinfo(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if userinfo, host, found := strings.Cut(authority, "@"); found {
		if strings.Contains(host, "@") {
			return uri // should have been percent-encoded: who knows where the host begins
		}
		user, _, _ := strings.Cut(userinfo, ":")
		authority = user + "@" + host
	}
	out := scheme + "://" + authority + path
	if !hasQuery {
		return out
	}
	var kept []string
	for _, parameter := range strings.Split(query, "&") {
		if key, _, _ := strings.Cut(parameter, "="); !secretKey.MatchString(key) {
			kept = append(kept, parameter)
		}
	}
	if len(kept) == 0 {
		return out
	}
	return out + "?" + strings.Join(kept, "&")
}

// withoutPairs is for keywords and values. What is kept is kept as it is written.
func withoutPairs(conninfo string) string {
	var kept []string
	for key, value := range pairs(conninfo) {
		if !secretKey.MatchString(key) {
			kept = append(kept, key+"="+value)
		}
	}
	return strings.Join(kept, " ")
}

// pairs goes through keywords and values by libpq's rules (fe-connect.c,
// conninfo_parse), each value as it is written.
func pairs(conninfo string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for rest := conninfo; ; {
			rest = strings.TrimLeft(rest, " \t\r\n")
			if rest == "" {
				return
			}
			key, value, _ := strings.Cut(rest, "=")
			value = strings.TrimLeft(value, " \t\r\n")
			end := valueEnd(value)
			if !yield(strings.TrimSpace(key), value[:end]) {
				return
			}
			rest = value[end:]
		}
	}
}

// valueEnd returns how long the value is that a text begins with.
func valueEnd(text string) int {
	quoted := strings.HasPrefix(text, "'")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quoted && c == '\'' && i > 0:
			return i + 1
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			return i
		}
	}
	return len(text)
}
