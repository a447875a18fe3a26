package conninfo

import (
	"crypto/tls"
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
		"host=a sslcrl=/crl":              "sslcrl=/crl",
		"host=a sslcrldir=/crls":          "not supported",
		"host=/run requirepeer=postgres":  "requirepeer",
		"host=a gssencmode=require":       "gssencmode",
		"host=a sslcrl='' gssencmode=prefer ssl_min_protocol_version=tlsv1.3":      "",
		"host=a ssl_min_protocol_version=TLSv1.4":                                  `"ssl_min_protocol_version"`,
		"host=a ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2": "invalid SSL protocol version range",
		"host=a ssl_max_protocol_version=TLSv1.1":                                  "invalid SSL protocol version range",
		"host=a ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1":   "",
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
	LeaveOut(config)
	if len(config.RuntimeParams) != 1 || config.RuntimeParams["application_name"] != "x" {
		t.Errorf("sent are %v", config.RuntimeParams)
	}
}

// The bounds hold for every host and for every way that sslmode has tried.
func TestTLSVersions(t *testing.T) {
	for conn, want := range map[string][2]uint16{
		"":                                  {0, 0},
		" ssl_min_protocol_version=TLSv1.3": {tls.VersionTLS13, 0},
		" ssl_min_protocol_version=TLSv1.2 ssl_max_protocol_version=tlsv1.2": {tls.VersionTLS12, tls.VersionTLS12},
	} {
		for _, mode := range []string{"prefer", "allow", "require"} {
			config, err := pgconn.ParseConfig("host=a,b sslmode=" + mode + conn)
			if err != nil {
				t.Fatal(err)
			}
			LeaveOut(config)
			ways := []*tls.Config{config.TLSConfig}
			for _, f := range config.Fallbacks {
				ways = append(ways, f.TLSConfig)
			}
			n := 0
			for _, way := range ways {
				if way == nil {
					continue
				}
				n++
				if got := [2]uint16{way.MinVersion, way.MaxVersion}; got != want {
					t.Errorf("sslmode=%s%s: %x, want %x", mode, conn, got, want)
				}
			}
			if n < 2 {
				t.Errorf("sslmode=%s%s: %d ways encrypt, want one for each host", mode, conn, n)
			}
			if len(config.RuntimeParams) != 0 {
				t.Errorf("sent are %v", config.RuntimeParams)
			}
		}
	}
}
