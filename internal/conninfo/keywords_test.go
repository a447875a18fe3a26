package conninfo

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestKeywords(t *testing.T) {
	for conn, want := range map[string]string{
		"host=a port=1 user=u dbname=d":                                     "",
		"host=a gssencmode=disable keepalives_idle=10 tcp_user_timeout=100": "",
		"host=a application_name=x options='-c work_mem=1MB'":               "",
		"postgres://u@a/d?gssencmode=disable&connect_timeout=3":             "",
		"host=a sslmode=disable channel_binding=disable":                    "",
		"host=a prt=5433":                 `"prt"`,
		"postgres://u@a/d?sslmod=require": `"sslmod"`,
		"hostaddr=127.0.0.1":              "write the address as host",
	} {
		err := Check(conn)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%q) = %v, want %q", conn, err, want)
		}
	}
}

func TestLibpqsOwnKeywordsAreNotSent(t *testing.T) {
	config, err := pgconn.ParseConfig("host=a gssencmode=disable load_balance_hosts=random application_name=x")
	if err != nil {
		t.Fatal(err)
	}
	LeaveOut(config.RuntimeParams)
	if len(config.RuntimeParams) != 1 || config.RuntimeParams["application_name"] != "x" {
		t.Errorf("sent are %v", config.RuntimeParams)
	}
}
