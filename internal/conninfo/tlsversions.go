package conninfo

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// notDone are keywords that libpq keeps a connection safe by, and the driver does not
// know. Whoever sets one relies on it, so it is refused where it asks for something.
var notDone = map[string]func(value string) bool{
	"requirepeer": isSet, "sslcrl": isSet, "sslcrldir": isSet,
	"gssencmode": func(value string) bool { return value == "require" },
}

func isSet(value string) bool { return value != "" }

// tlsVersions are the values of ssl_min_protocol_version and its counterpart.
var tlsVersions = map[string]uint16{
	"": 0, "tlsv1": tls.VersionTLS10, "tlsv1.1": tls.VersionTLS11, "tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13,
}

// parseTLSVersions reads both. 0 is no bound.
func parseTLSVersions(params map[string]string) (least, most uint16, err error) {
	for key, to := range map[string]*uint16{"ssl_min_protocol_version": &least, "ssl_max_protocol_version": &most} {
		version, known := tlsVersions[strings.ToLower(params[key])]
		if !known {
			return 0, 0, &Error{fmt.Sprintf("invalid %q value: TLSv1, TLSv1.1, TLSv1.2 or TLSv1.3", key)}
		}
		*to = version
	}
	if most != 0 && cmp.Or(least, tls.VersionTLS12) > most {
		return 0, 0, &Error{"invalid SSL protocol version range"}
	}
	return least, most, nil
}

// boundTLS has every way to encrypt keep to the versions that the conninfo allows.
// Check has refused what is no version.
func boundTLS(config *pgconn.Config) {
	least, most, err := parseTLSVersions(config.RuntimeParams)
	if err != nil {
		return
	}
	bound := func(way *tls.Config) {
		if way != nil {
			way.MinVersion, way.MaxVersion = max(way.MinVersion, least), most
		}
	}
	bound(config.TLSConfig)
	for _, f := range config.Fallbacks {
		bound(f.TLSConfig)
	}
}
