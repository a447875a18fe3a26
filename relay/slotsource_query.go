package relay

import (
	"fmt"
	"strings"
)

// Catalog queries. Each of captureQueries sees the moment at which it
// runs, not that of the first: positions first, slots later, so that a slot
// born after a message is never behind that message's CaptureLSN.

// settingsQuery sets what only some versions know.
const settingsQuery = `SELECT count(pg_catalog.set_config(s.name, v.value, false))
FROM pg_catalog.pg_settings s JOIN (VALUES
 ('statement_timeout', '%[1]d'), ('lock_timeout', '%[1]d'), ('transaction_timeout', '0'),
 ('idle_session_timeout', '0'), ('jit', 'off'), ('default_transaction_read_only', 'on')
) v(name, value) ON s.name = v.name`

// columnsQuery lists what pg_replication_slots has here. The catalog is asked,
// not a table of versions.
const columnsQuery = `SELECT attname FROM pg_catalog.pg_attribute
WHERE attrelid = pg_catalog.to_regclass('pg_catalog.pg_replication_slots') AND attnum > 0 AND NOT attisdropped`

// microsSince2000 turns a timestamptz into the wire's time; NULL is 0.
func microsSince2000(expr string) string {
	return fmt.Sprintf("coalesce((extract(epoch FROM %s) * 1000000)::bigint - 946684800000000, 0)", expr)
}

// startTime is when the server's life began. When a child of the postmaster crashes, all
// others end and slots are read from disk again, and only the start of the
// checkpointer shows it. Without pg_read_all_stats it is NULL, which greatest skips.
const startTime = `greatest(pg_postmaster_start_time(),
  (SELECT max(backend_start) FROM pg_stat_activity WHERE backend_type = 'checkpointer'))`

// serverQuery reads what a server is and where it stands. OFFSET 0 keeps
// pg_is_in_recovery() one call, made before the position is read.
var serverQuery = `SELECT (SELECT system_identifier FROM pg_control_system()), r,
 CASE WHEN r THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
 ` + microsSince2000("clock_timestamp()") + `,
 CASE WHEN r THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
 CASE WHEN r THEN greatest((SELECT received_tli FROM pg_stat_wal_receiver),
   (SELECT timeline_id FROM pg_control_checkpoint())) END,
 ` + microsSince2000(startTime) + `, current_setting('server_version_num')
FROM (SELECT pg_is_in_recovery() AS r OFFSET 0) q`

// preparedQuery reads the prepared transactions.
var preparedQuery = `SELECT database, gid, transaction, ` + microsSince2000("prepared") + `
FROM pg_prepared_xacts ORDER BY prepared, gid`

// openQuery reads the oldest open transaction with an xid of each database.
// Without pg_read_all_stats other roles' transactions do not show an xid.
var openQuery = `SELECT DISTINCT ON (datname) datname, backend_xid, pid, ` + microsSince2000("xact_start") + `
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND datname IS NOT NULL
ORDER BY datname, age(backend_xid) DESC, pid`

// slotColumns are the columns a slot is read by, with the type of the NULL
// that stands for one that the server does not have.
var slotColumns = []struct{ name, kind string }{
	{"slot_name", "name"}, {"slot_type", "text"}, {"plugin", "name"}, {"database", "name"}, {"temporary", "bool"},
	{"active", "bool"}, {"xmin", "xid"}, {"catalog_xmin", "xid"}, {"restart_lsn", "pg_lsn"},
	{"confirmed_flush_lsn", "pg_lsn"}, {"wal_status", "text"}, {"two_phase", "bool"}, {"two_phase_at", "pg_lsn"},
	{"failover", "bool"}, {"synced", "bool"}, {"conflicting", "bool"}, {"invalidation_reason", "text"},
	{"inactive_since", "timestamptz"},
}

// slotsQuery reads all slots with the columns that are there.
func slotsQuery(have map[string]bool) string {
	var q strings.Builder
	q.WriteString("SELECT ")
	for i, c := range slotColumns {
		expr := "NULL::" + c.kind
		if have[c.name] {
			expr = c.name
		}
		if c.kind == "timestamptz" {
			expr = microsSince2000(expr)
		}
		if i > 0 {
			q.WriteString(", ")
		}
		q.WriteString(expr)
	}
	q.WriteString(" FROM pg_replication_slots ORDER BY slot_name")
	return q.String()
}

// captureQueries are sent in one round trip. Their order matters.
func captureQueries(have map[string]bool, walsenders bool) []string {
	statements := []string{serverQuery, slotsQuery(have), preparedQuery, openQuery}
	if walsenders {
		statements = append(statements, walsendersQuery, logicalSlotsQuery)
	}
	return statements
}

// captureResults is how many of the results of captureQueries make a message.
const captureResults = 4
