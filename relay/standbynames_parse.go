package relay

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseStandbyNames reads a list of standbys in the syntax of
// synchronous_standby_names (syncrep_gram.y, syncrep_scanner.l):
//
//	[FIRST] n ( name [, ...] )
//	ANY n ( name [, ...] )
//	name [, ...]                      the same as FIRST 1 (...)
//
// Keywords are read in any case. A name that is a keyword, or has other
// characters than letters, digits, _ and $, is written in double quotes. * is any
// standby. What PostgreSQL refuses is refused; so is the empty text, which turns
// synchronous replication off there.
func ParseStandbyNames(text string) (*StandbyNames, error) {
	p := namesParser{rest: text}
	n, err := p.parse()
	if err != nil {
		return nil, fmt.Errorf("parse list of standbys %q: %w", text, err)
	}
	n.text = text
	return n, nil
}

// nameToken is one token of the list: its kind, and the text of a name or number.
type nameToken struct {
	kind tokenKind
	text string // what it stands for
	raw  string // as written
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber
	tokenAny
	tokenFirst
	tokenPunct // one of , ( )
)

func (t nameToken) String() string {
	if t.kind == tokenEnd {
		return "at end of input"
	}
	return fmt.Sprintf("at or near %q", t.raw)
}

var (
	errStandbySyntax = errors.New("syntax error")
	errStandbyQuote  = errors.New("unterminated quoted identifier")
	errStandbyNumber = errors.New("number of synchronous standbys must be greater than zero")
)

// namesParser takes tokens off the front of the text.
type namesParser struct{ rest string }

func (p *namesParser) parse() (*StandbyNames, error) {
	n := &StandbyNames{n: 1}
	t, err := p.next()
	if err != nil {
		return nil, err
	}
	number := nameToken{}
	switch t.kind {
	case tokenAny, tokenFirst:
		n.any = t.kind == tokenAny
		if number, err = p.expect(tokenNumber, ""); err != nil {
			return nil, err
		}
		if _, err := p.expect(tokenPunct, "("); err != nil {
			return nil, err
		}
	case tokenNumber:
		// A number is a name, too, unless a parenthesis follows.
		before := *p
		next, err := p.next()
		switch {
		case err != nil:
			return nil, err
		case next.raw == "(":
			number = t
		default:
			*p = before
			return n, p.list(n, t, false)
		}
	default:
		return n, p.list(n, t, false)
	}
	if n.n, err = standbyCount(number.text); err != nil {
		return nil, err
	}
	if t, err = p.next(); err != nil {
		return nil, err
	}
	return n, p.list(n, t, true)
}

// list reads names from t on, to the end of the text or to the parenthesis that
// must close the list.
func (p *namesParser) list(n *StandbyNames, t nameToken, parenthesis bool) error {
	for {
		if t.kind != tokenName && t.kind != tokenNumber {
			return fmt.Errorf("%w %v", errStandbySyntax, t)
		}
		n.names = append(n.names, t.text)
		next, err := p.next()
		if err != nil {
			return err
		}
		switch {
		case next.kind == tokenPunct && next.text == ",":
		case parenthesis && next.kind == tokenPunct && next.text == ")":
			_, err := p.expect(tokenEnd, "")
			return err
		case !parenthesis && next.kind == tokenEnd:
			return nil
		default:
			return fmt.Errorf("%w %v", errStandbySyntax, next)
		}
		if t, err = p.next(); err != nil {
			return err
		}
	}
}

func standbyCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || n > math.MaxInt32:
		return 0, fmt.Errorf("number of synchronous standbys %s is too large", text)
	case n == 0:
		return 0, errStandbyNumber
	}
	return int(n), nil
}

func (p *namesParser) expect(kind tokenKind, text string) (nameToken, error) {
	t, err := p.next()
	if err == nil && (t.kind != kind || t.text != text && text != "") {
		err = fmt.Errorf("%w %v", errStandbySyntax, t)
	}
	return t, err
}

func (p *namesParser) next() (nameToken, error) {
	p.rest = strings.TrimLeft(p.rest, " \t\n\r\f\v")
	if p.rest == "" {
		return nameToken{kind: tokenEnd}, nil
	}
	switch c := p.rest[0]; {
	case c == '"':
		return p.quoted()
	case c == ',' || c == '(' || c == ')':
		return p.take(tokenPunct, 1), nil
	case c == '*':
		return p.take(tokenName, 1), nil
	case isStandbyDigit(c):
		return p.take(tokenNumber, countWhile(p.rest, isStandbyDigit)), nil
	case isStandbyStart(c):
		t := p.take(tokenName, countWhile(p.rest, isStandbyCont))
		switch {
		case equalFoldASCII(t.text, "any"):
			t.kind = tokenAny
		case equalFoldASCII(t.text, "first"):
			t.kind = tokenFirst
		}
		return t, nil
	default:
		return nameToken{}, fmt.Errorf("%w %v", errStandbySyntax, p.take(tokenName, 1))
	}
}

func (p *namesParser) take(kind tokenKind, n int) nameToken {
	t := nameToken{kind: kind, text: p.rest[:n], raw: p.rest[:n]}
	p.rest = p.rest[n:]
	return t
}

// quoted reads a name in double quotes; a doubled quote inside is one.
func (p *namesParser) quoted() (nameToken, error) {
	for i := 1; i < len(p.rest); i++ {
		switch {
		case p.rest[i] != '"':
		case i+1 < len(p.rest) && p.rest[i+1] == '"':
			i++
		default:
			t := p.take(tokenName, i+1)
			t.text = strings.ReplaceAll(t.raw[1:i], `""`, `"`)
			return t, nil
		}
	}
	return nameToken{}, errStandbyQuote
}

func countWhile(s string, ok func(byte) bool) (n int) {
	for n < len(s) && ok(s[n]) {
		n++
	}
	return n
}

func isStandbyDigit(c byte) bool { return c >= '0' && c <= '9' }

func isStandbyStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isStandbyCont(c byte) bool { return isStandbyStart(c) || isStandbyDigit(c) || c == '$' }
