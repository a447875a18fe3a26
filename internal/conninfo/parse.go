package conninfo

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Error says what is wrong with a conninfo, and shows none of it that could be
// secret.
type Error struct{ text string }

// Error returns the sentence.
func (e *Error) Error() string { return e.text }

// Hint returns a sentence that says what to do.
func (e *Error) Hint() string {
	return "Write it as libpq does: 'host=db1 port=5432 user=repl dbname=postgres' or postgres://repl@db1:5432/postgres."
}

// Check parses a conninfo, keyword/value or URI. Its error is an *Error.
func Check(conninfo string) error {
	config, err := pgconn.ParseConfig(conninfo)
	if err == nil {
		return checkKeywords(config.RuntimeParams)
	}
	if isURI(conninfo) {
		return &Error{"not a valid connection URI (a special character in it must be percent-encoded)"}
	}
	// pgconn quotes the conninfo in backquotes, and then says what is wrong.
	text := err.Error()
	if _, why, found := cutLast(text, "`: "); found {
		text = why
	}
	return &Error{NewRedactor(conninfo).Redact(text)}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func isURI(conninfo string) bool {
	return strings.HasPrefix(conninfo, "postgres://") || strings.HasPrefix(conninfo, "postgresql://")
}

// Addresses lists the hosts of a conninfo for people, in the order in which they
// are tried. A conninfo that cannot be parsed has none.
func Addresses(conninfo string) string {
	config, err := pgconn.ParseConfig(conninfo)
	if err != nil {
		return ""
	}
	var list []string
	add := func(host string, port uint16) {
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if strings.HasPrefix(host, "/") {
			address = fmt.Sprintf("%s/.s.PGSQL.%d", host, port)
		}
		for _, have := range list {
			if have == address {
				return
			}
		}
		list = append(list, address)
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
	return strings.Join(list, ", ")
}
