package conninfo

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestWithoutSecrets(t *testing.T) {
	for _, test := range []struct{ conninfo, want string }{
		{"host=db1 user=repl", "host=db1 user=repl"},
		{"postgres://repl@db1/x", "postgres://repl@db1/x"},
		{"host=db1 password=hunter2hunter2 user=repl", "host=db1 user=repl"},
		{"password = 'hunter2\\' hunter2' host='a b' user = repl", "host='a b' user=repl"},
		{`host=db1 password=hunter2\ hunter2`, "host=db1"},
		{"postgres://repl:hunter2@db1,db2:5433/x", "postgres://repl@db1,db2:5433/x"},
		{"postgresql://repl@db1/x?password=hunter2&sslmode=disable", "postgresql://repl@db1/x?sslmode=disable"},
		{"postgres://repl@db1/x?sslpassword=hunter2", "postgres://repl@db1/x"},
		{"postgres://:hunter2@db1", "postgres://@db1"},
	} {
		if got := WithoutSecrets(test.conninfo); got != test.want {
			t.Errorf("WithoutSecrets(%q) = %q, want %q", test.conninfo, got, test.want)
		}
	}
	for _, test := range secretConninfos {
		got := WithoutSecrets(test.conninfo)
		if strings.Contains(got, secret) {
			t.Errorf("%s: it is shown: %q", test.name, got)
		}
		before, err := pgconn.ParseConfig(test.conninfo)
		if err != nil || strings.Contains(got, Mask) {
			continue
		}
		after, err := pgconn.ParseConfig(got)
		if err != nil || after.Host != before.Host || after.User != before.User || after.Port != before.Port || after.Database != before.Database {
			t.Errorf("%s: %q connects elsewhere: %v", test.name, got, err)
		}
	}
}
