package conninfo

import (
	"fmt"
	"testing"
)

func TestLeftOut(t *testing.T) {
	for _, variable := range []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGSERVICE", "PGPASSFILE"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PGPORT", "5433")
	t.Setenv("PGPASSWORD", "hunter2hunter2")
	getenv := func(name string) string {
		return map[string]string{"PGPORT": "5433", "PGPASSWORD": "hunter2hunter2"}[name]
	}
	for _, test := range []struct{ conninfo, want string }{
		{"host=db1 user=repl dbname=x", "[{port 5433 PGPORT} {password  PGPASSWORD}]"},
		{"host = 'a b' port=1 user=u dbname=d password=secret", "[]"},
		{"postgres://repl@db1/x", "[{port 5433 PGPORT} {password  PGPASSWORD}]"},
		{"postgres://repl:secret@[::1]:5/x", "[]"},
		{"postgres://repl:secret@[::1]/x", "[{port 5433 PGPORT}]"},
		{"postgres:///x?host=/run/postgresql&user=u&port=6", "[{password  PGPASSWORD}]"},
		{"host=a port=x", "[]"},
	} {
		if got := fmt.Sprint(LeftOut(test.conninfo, getenv)); got != test.want {
			t.Errorf("LeftOut(%q) = %s, want %s", test.conninfo, got, test.want)
		}
	}
}
