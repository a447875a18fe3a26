package conninfo

import (
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// libpqOnly are keywords that libpq knows (fe-connect.c, PQconninfoOptions) and the
// driver does not: it would send them to the server as settings. They are allowed,
// so that a primary_conninfo can be given as it is, and left out. checkKeywords
// refuses those that somebody relies on.
var libpqOnly = []string{
	"gssencmode", "gsslib", "gssdelegation", "krbsrvname", "keepalives", "keepalives_idle", "keepalives_interval",
	"keepalives_count", "tcp_user_timeout", "requirepeer", "require_auth", "sslcompression", "sslcrl", "sslcrldir",
	"sslcertmode", "ssl_min_protocol_version", "ssl_max_protocol_version", "load_balance_hosts",
	"fallback_application_name", "sslkeylogfile",
}

// sent are the keywords of libpq that are settings of the session, and so reach the
// server.
var sent = []string{"application_name", "client_encoding", "options", "replication", "timezone", "datestyle", "geqo"}

// LeaveOut takes libpq's own keywords out of what is sent to the server. Those about
// versions of TLS are heeded.
func LeaveOut(config *pgconn.Config) {
	boundTLS(config)
	maps.DeleteFunc(config.RuntimeParams, func(key, _ string) bool { return slices.Contains(libpqOnly, key) })
}

// checkKeywords refuses what libpq would refuse: the driver takes any word for a
// setting of the server, and so a misspelt port for none at all.
func checkKeywords(params map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(params)) {
		switch {
		case key == "hostaddr":
			return &Error{`"hostaddr" is not supported: write the address as host`}
		case !slices.Contains(libpqOnly, key) && !slices.Contains(sent, key):
			return &Error{fmt.Sprintf("invalid connection option %q", key)}
		case notDone[key] != nil && notDone[key](params[key]):
			return &Error{fmt.Sprintf("\"%s=%s\" is not supported: connections would not be kept safe by it", key, params[key])}
		}
	}
	_, _, err := parseTLSVersions(params)
	return err
}
