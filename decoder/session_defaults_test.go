package decoder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// hostileDefaults are what a server, a database or a role may have for all
// sessions, and the least version that knows each.
var hostileDefaults = []struct {
	major       int
	name, value string
	want        string // in a session of the helper
}{
	{0, "statement_timeout", "50ms", "0"},
	{0, "lock_timeout", "1ms", "0"},
	{0, "idle_in_transaction_session_timeout", "1ms", "0"},
	{0, "idle_session_timeout", "300ms", "0"},
	{17, "transaction_timeout", "200ms", "0"},
	{0, "default_transaction_isolation", "serializable", "read committed"},
	{0, "default_transaction_deferrable", "on", "on"},
	{0, "default_transaction_read_only", "on", "on"},
	{0, "search_path", "nowhere", "pg_catalog"},
	{0, "DateStyle", "German, DMY", "German, DMY"},
	{0, "IntervalStyle", "sql_standard", "sql_standard"},
	{0, "TimeZone", "Asia/Kathmandu", "Asia/Kathmandu"},
	{0, "bytea_output", "escape", "escape"},
	{0, "client_min_messages", "debug5", "warning"},
}

// With defaults that are against it, a helper makes slots, advances them, and keeps
// its anchor through any time of rest.
func TestServerDefaultsDoNotBreakTheHelper(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		p.stop() // it speaks as a superuser without defaults
		clustertest.Exec(t, p.primary, "postgres", "CREATE ROLE ferry SUPERUSER REPLICATION LOGIN", "CREATE DATABASE shop")
		for _, s := range hostileDefaults {
			if s.major <= major {
				clustertest.Exec(t, p.primary, "postgres", fmt.Sprintf("ALTER ROLE ferry SET %s = %s", s.name, pgQuoted(s.value)))
			}
		}
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		conninfo := p.standby.Conninfo("postgres") + " user=ferry"
		testDefaults(t, conninfo, major)

		settings := DefaultSettings()
		settings.AdvanceInterval, settings.AnchorInterval = 100*time.Millisecond, time.Hour
		p.runningHelper = startHelper(t, p.standby, p.source, p.dir, settings, func(c *Config) { c.Standby = conninfo })
		p.waitAnchor(t)
		anchor := anchorNameOn(t, p)
		for _, db := range []string{"postgres", "shop"} {
			clustertest.Exec(t, p.primary, db, fmt.Sprintf("SELECT pg_create_logical_replication_slot('s_%s', 'test_decoding')", db))
		}
		p.slot(t, "s_shop", StateReady, ReasonNone)
		born := p.slot(t, "s_postgres", StateReady, ReasonNone).Local
		clustertest.Exec(t, p.primary, "postgres", "INSERT INTO t VALUES (1)", "SELECT pg_log_standby_snapshot()",
			"SELECT pg_replication_slot_advance('s_postgres', pg_current_wal_flush_lsn())")
		poll.Require(t, 30*time.Second, "the slot to be advanced", func(context.Context) (bool, string) {
			for _, s := range p.helper.Status().Slots {
				if s.Name == "s_postgres" {
					return s.State == StateReady && s.Lag == 0 && s.Local > born, fmt.Sprintf("%+v", s)
				}
			}
			return false, "not there"
		})
		// The anchor's session rests for three times as long as it may.
		poll.Require(t, 30*time.Second, "the anchor's session to rest", func(context.Context) (bool, string) {
			idle := clustertest.Value[float64](t, p.standby, "postgres", `SELECT coalesce(max(extract(epoch FROM now() - state_change)), -1)::float8
				FROM pg_replication_slots JOIN pg_stat_activity ON pid = active_pid WHERE slot_name = $1`, anchor)
			if idle < 0 {
				t.Fatalf("anchor %s has gone", anchor)
			}
			return idle > 0.9, fmt.Sprintf("for %.1f s", idle)
		})
		for _, bad := range []Reason{ReasonRecoveryConflict, ReasonError, ReasonStandbyUnreachable} {
			if strings.Contains(p.log.String(), `"reason":"`+string(bad)+`"`) {
				t.Errorf("the helper has met %s", bad)
			}
		}
	})
}

// testDefaults reads the settings in both kinds of session that the helper has.
func testDefaults(t *testing.T, conninfo string, major int) {
	t.Helper()
	s, err := newSessions(conninfo, 1)
	if err != nil {
		t.Fatal(err)
	}
	err = s.with(t.Context(), "shop", func(ordinary *pgx.Conn) error {
		walsender, err := s.connectReplication(t.Context(), "")
		if err != nil {
			return err
		}
		defer closePgConn(walsender)
		for _, d := range hostileDefaults {
			if d.major > major {
				continue
			}
			var got string
			if err := ordinary.QueryRow(t.Context(), "SHOW "+d.name).Scan(&got); err != nil {
				return err
			}
			rows, err := simpleQuery(t.Context(), walsender, "SHOW "+d.name)
			if err != nil {
				return err
			}
			if got != d.want || string(rows[0][0]) != d.want {
				t.Errorf("%s is %q in an ordinary session and %q in a walsender, want %q", d.name, got, rows[0][0], d.want)
			}
		}
		return nil
	})
	s.close()
	if err != nil {
		t.Error(err)
	}
}

func anchorNameOn(t *testing.T, p *pair) string {
	t.Helper()
	return clustertest.Value[string](t, p.standby, "postgres",
		"SELECT slot_name::text FROM pg_replication_slots WHERE starts_with(slot_name::text, $1)", anchorPrefix)
}

func pgQuoted(s string) string { return "'" + s + "'" }
