// Package secretfile reads files that hold a secret: a private key, a token. It
// refuses those that others can read, as PostgreSQL does with its key.
package secretfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Error is an error with advice for the operator.
type Error struct {
	err  error
	hint string
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Hint returns a sentence that says what to do.
func (e *Error) Hint() string { return e.hint }

// CheckMode refuses a file that others can read or its group can write, as
// check_ssl_key_file_permissions (be-secure-common.c) does. what names it. A
// missing file is no error here: who reads it says so.
func CheckMode(what, path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o027 == 0 {
		return nil
	}
	return &Error{fmt.Errorf("%s %s has group or world access", what, path), "Give it permissions u=rw,g=r (0640) or less."}
}

// KeyPair loads a certificate, with those of intermediate authorities behind it,
// and its private key. Its error names all that is wrong with the two files.
func KeyPair(cert, key string) (tls.Certificate, error) {
	mode := CheckMode("private key file", key)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		err = &Error{fmt.Errorf("load certificate %s with key %s: %w", cert, key, err),
			"Both are PEM files, and the key is the one that the certificate was made for."}
	}
	return pair, errors.Join(mode, err)
}

// The bounds of a token, in bytes.
const (
	minToken = 16
	maxToken = 4096
)

// Token reads a token: one line of printable characters without a space.
func Token(path string) (string, error) {
	const hint = `Make one: (umask 077; openssl rand -hex 32 > FILE)`
	if err := CheckMode("token file", path); err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", &Error{fmt.Errorf("load token: %w", err), hint}
	}
	token := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(token) < minToken || len(token) > maxToken:
		return "", &Error{fmt.Errorf("load token: that in %s has %d bytes, not %d to %d", path, len(token), minToken, maxToken), hint}
	case strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) >= 0:
		return "", &Error{fmt.Errorf("load token: that in %s is not one line of printable ASCII without a space", path), hint}
	}
	return token, nil
}
