package conninfo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// secretConninfos all hide the same secret, well-formed or not.
var secretConninfos = []struct{ name, conninfo string }{
	{"keyword", "host=db1 password=hunter2hunter2 user=repl"},
	{"keyword, spaces", "host=db1 password =  hunter2hunter2"},
	{"keyword, quoted", "password='hunter2hunter2' host=db1"},
	{"keyword, quoted with quotes", `password='hunter2hunter2\'x' host=db1`},
	{"keyword, never closed", "host=db1 password='hunter2hunter2"},
	{"keyword, upper case", "host=db1 PASSWORD=hunter2hunter2"},
	{"keyword, escaped space", `host=db1 password=hunter2hunter2\ more`},
	{"keyword, bad port", "host=db1 port=x password=hunter2hunter2"},
	{"keyword, bad sslmode", "host=db1 sslmode=perhaps password=hunter2hunter2"},
	{"sslpassword", "host=db1 sslpassword=hunter2hunter2"},
	{"uri", "postgres://repl:hunter2hunter2@db1/postgres"},
	{"uri, at sign", "postgres://repl:x@hunter2hunter2@db1/postgres"},
	{"uri, slash", "postgres://repl:x/hunter2hunter2@db1/postgres"},
	{"uri, space", "postgres://repl:x hunter2hunter2@db1/postgres"},
	{"uri, percent", "postgres://repl:%hunter2hunter2@db1/postgres"},
	{"uri, no user", "postgresql://:hunter2hunter2@db1,db2/postgres"},
	{"uri, parameter", "postgres://db1/postgres?user=repl&password=hunter2hunter2&sslmode=bad"},
	{"uri, bad port", "postgres://repl:hunter2hunter2@db1:port/postgres"},
}

const secret = "hunter2hunter2"

func TestRedactHidesSecrets(t *testing.T) {
	for _, test := range secretConninfos {
		if got := Redact(test.conninfo); strings.Contains(got, secret) || !strings.Contains(got, Mask) {
			t.Errorf("%s: Redact gave %q", test.name, got)
		}
		if got := Redact("connect with " + test.conninfo); strings.Contains(got, secret) {
			t.Errorf("%s: Redact of a sentence gave %q", test.name, got)
		}
	}
}

func TestRedactKeepsTheRest(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"host=db1 port=5432 user=repl", "host=db1 port=5432 user=repl"},
		{"host=db1 passfile=/etc/pass user=repl", "host=db1 passfile=/etc/pass user=repl"},
		{"password authentication failed for user \"repl\"", "password authentication failed for user \"repl\""},
		{"postgres://repl@db1:5432/postgres", "postgres://repl@db1:5432/postgres"},
		{"postgres://db1:5432/postgres", "postgres://db1:5432/postgres"},
		{"host=db1 password=a user=repl", "host=db1 password=*** user=repl"},
		{"postgres://repl:a@db1/x?password=b&sslmode=disable", "postgres://repl:***@db1/x?password=***&sslmode=disable"},
	} {
		if got := Redact(test.text); got != test.want {
			t.Errorf("Redact(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestCheckShowsNoSecret(t *testing.T) {
	for _, test := range secretConninfos {
		if err := Check(test.conninfo); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for _, bad := range []string{"nonsense", "host=db1 port=x", "postgres://db1:x/", "host=db1 sslmode=perhaps"} {
		if err := Check(bad); err == nil {
			t.Errorf("Check(%q) found nothing wrong", bad)
		}
	}
	for _, good := range []string{"", "host=db1", "host=db1,db2 port=1,2", "postgres://db1,db2:6432/x", "host=/tmp"} {
		if err := Check(good); err != nil {
			t.Errorf("Check(%q): %v", good, err)
		}
	}
}

func TestRedactorMasksSpellings(t *testing.T) {
	r := NewRedactor(`host=db1 password='p"a ss\\w/rd'`, "postgres://repl:s%40cret@db1/x")
	for _, text := range []string{`p"a ss\w/rd`, `p\"a ss\\w/rd`, "p%22a+ss%5Cw%2Frd", "s@cret", "s%40cret"} {
		if got := r.Redact("x " + text + " y"); got != "x *** y" {
			t.Errorf("Redact(%q) = %q", text, got)
		}
	}
	var buf bytes.Buffer
	line, err := json.Marshal(map[string]string{"error": `bad p"a ss\w/rd`})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Writer(&buf).Write(line); n != len(line) || err != nil {
		t.Errorf("Write = %d, %v, want %d", n, err, len(line))
	}
	if got := buf.String(); got != `{"error":"bad ***"}` {
		t.Errorf("wrote %s", got)
	}
}

// Beside a quote or a backslash, which JSON escapes, < > & are escaped by some and not
// by others.
func TestRedactorMasksBothWaysOfJSON(t *testing.T) {
	for _, password := range []string{`ab"c<defgh`, `a\\b&cdef`, `x>y"z&longer`} {
		secret := strings.ReplaceAll(password, `\\`, `\`)
		r := NewRedactor("host=a password='" + password + "'")
		var zero, std strings.Builder
		log := zerolog.New(r.Writer(&zero))
		log.Info().Str("error", "bad "+secret+" here").Msg("x")
		if err := json.NewEncoder(r.Writer(&std)).Encode(map[string]string{"error": "bad " + secret + " here"}); err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{zero.String(), std.String(), r.Redact("bad " + secret + " here")} {
			if !strings.Contains(got, "bad "+Mask+" here") {
				t.Errorf("%s is logged as %s", secret, got)
			}
		}
	}
}

func TestRedactorKnowsPGPASSWORD(t *testing.T) {
	t.Setenv("PGPASSWORD", "fromthedark")
	if got := NewRedactor("host=db1").Redact("it is fromthedark"); got != "it is ***" {
		t.Errorf("Redact = %q", got)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ conninfo, want string }{
		{"host=db1 port=6432", "db1:6432"},
		{"host=db1,db2 port=6432", "db1:6432, db2:6432"},
		{"host=/tmp port=5433", "/tmp/.s.PGSQL.5433"},
		{"host=::1 port=5433", "[::1]:5433"},
		{"nonsense", ""},
	} {
		if got := Addresses(test.conninfo); got != test.want {
			t.Errorf("Addresses(%q) = %q, want %q", test.conninfo, got, test.want)
		}
	}
}
