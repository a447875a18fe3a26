package conninfo

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5/pgconn"
)

// sessionDefaults go into the startup packet, where they win over what the server,
// the database or the role sets, from the first statement on. Every version knows
// them. A serializable transaction is refused in a hot standby
// (GetSerializableTransactionSnapshot, predicate.c).
var sessionDefaults = map[string]string{
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "0",
	"default_transaction_isolation":       "read committed",
	"client_min_messages":                 "warning",
	"search_path":                         "pg_catalog",
}

// laterDefaults sets what only some versions know: idle_session_timeout came with
// 14, transaction_timeout with 17. A session that is to last is ended by either.
const laterDefaults = `SELECT pg_catalog.count(pg_catalog.set_config(name, '0', false)) FROM pg_catalog.pg_settings
WHERE name IN ('idle_session_timeout', 'transaction_timeout')`

// SetDefaults names the sessions of a configuration, and takes out of it and of the
// server's own defaults what could break them. Part of that can be set only in a
// session that stands: a Connect by this configuration does it.
func SetDefaults(config *pgconn.Config, applicationName string) {
	LeaveOut(config)
	maps.Copy(config.RuntimeParams, sessionDefaults)
	config.RuntimeParams["application_name"] = applicationName
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if _, err := conn.Exec(ctx, laterDefaults).ReadAll(); err != nil {
			return fmt.Errorf("set the session up: %w", err)
		}
		return nil
	}
}
