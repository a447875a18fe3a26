package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/slotcatalog"
)

// Bounds of reading one server.
const (
	connectTimeout = 10 * time.Second
	readTimeout    = 20 * time.Second
	closeTimeout   = time.Second
)

const applicationName = "slotferry check"

// Read asks a server for its facts. A server that cannot be reached is a fact
// too; an error means that one of the questions failed.
func Read(ctx context.Context, conn string, side Side) (*Server, error) {
	s := &Server{Address: conninfo.Addresses(conn), Settings: map[string]string{}}
	config, err := pgx.ParseConfig(conn)
	if err != nil {
		return nil, conninfo.Check(conn)
	}
	conninfo.SetDefaults(&config.Config, applicationName)
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	session, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		s.refused(err)
		return s, nil
	}
	defer closeSession(session)
	s.Encryption = encryptionOf(session.PgConn().Conn())
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.read(reading, session); err != nil {
		return nil, fmt.Errorf("read facts of the %s: %w", side, err)
	}
	if side == Standby {
		s.ReplicationError = tryReplication(ctx, config)
	}
	return s, nil
}

func closeSession(session *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = session.Close(ctx) // nothing was changed
}

// refused records why there is no session.
func (s *Server) refused(err error) {
	s.ConnectError, s.ConnectHint = attempts(err), "check host and port, and that the server runs and listens there"
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		var network net.Error
		if errors.As(err, &network) && network.Timeout() {
			s.ConnectHint = "nobody answers: check host, port and firewall"
		}
		return
	}
	s.Reached = true
	s.ConnectError = fmt.Sprintf("%s: %s (SQLSTATE %s)", s.Address, server.Message, server.Code)
	switch server.Code {
	case "28P01":
		s.ConnectHint = "check the password: in the password file (~/.pgpass, passfile) or PGPASSWORD"
	case "28000":
		s.ConnectHint = "create the role on the primary if it is missing (roles are replicated), and check that pg_hba.conf lets it in"
	case "3D000":
		s.ConnectHint = "name a database that exists: dbname=postgres"
	case "42704":
		s.ConnectHint = "correct the spelling of that keyword in the CONNINFO, or leave it out"
	case "57P03":
		s.ConnectHint = "the server is starting up, or is a standby with hot_standby = off"
	default:
		s.ConnectHint = server.Hint
	}
}

// attempts puts an error of pgconn on one line, each attempt once: it tries an
// address again without TLS, and says the same of it twice.
func attempts(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[0] + " " + strings.Join(lines[1:], "; "))
}

func (s *Server) read(ctx context.Context, session *pgx.Conn) error {
	for _, step := range []func(context.Context, *pgx.Conn) error{
		s.readServer, s.readSettings, s.readRole, s.readSlots, s.readDatabases, s.readSnapshot, s.readWalReceiver, s.readWalsenders,
	} {
		if err := step(ctx, session); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) readServer(ctx context.Context, session *pgx.Conn) error {
	s.Version = session.PgConn().ParameterStatus("server_version")
	err := session.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_catalog.pg_is_in_recovery(),
		(SELECT count(*) FROM pg_catalog.pg_stat_get_wal_senders())`).Scan(&s.VersionNum, &s.InRecovery, &s.WalSenders)
	if err != nil {
		return err
	}
	var id string
	if err := session.QueryRow(ctx, `SELECT system_identifier::text FROM pg_catalog.pg_control_system()`).Scan(&id); err != nil {
		return onlyDenied(err)
	}
	// The column is a signed bigint for an unsigned number.
	signed, err := strconv.ParseInt(id, 10, 64)
	s.SystemIdentifier = uint64(signed)
	return err
}

// onlyDenied forgives a question that the role may not ask.
func onlyDenied(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "42501" {
		return nil
	}
	return err
}

func (s *Server) readSettings(ctx context.Context, session *pgx.Conn) error {
	rows, err := session.Query(ctx, `SELECT name, coalesce(setting, '') FROM pg_catalog.pg_settings WHERE name = ANY ($1)`,
		[]string{
			"wal_level", "max_wal_senders", "max_replication_slots", "hot_standby_feedback", "wal_receiver_status_interval",
			"primary_slot_name", "sync_replication_slots", "recovery_min_apply_delay", "idle_replication_slot_timeout",
			"output_plugin_libraries",
		})
	if err != nil {
		return err
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		s.Settings[name] = value
		return nil
	})
	return err
}

func (s *Server) readRole(ctx context.Context, session *pgx.Conn) error {
	r := &s.Role
	return session.QueryRow(ctx, `SELECT rolname, rolsuper, rolreplication,
		pg_catalog.pg_has_role(oid, 'pg_read_all_stats', 'USAGE'), pg_catalog.pg_has_role(oid, 'pg_read_all_settings', 'USAGE')
		FROM pg_catalog.pg_roles WHERE rolname = current_user`).
		Scan(&r.Name, &r.Superuser, &r.Replication, &r.ReadAllStats, &r.ReadAllSettings)
}

func (s *Server) readSlots(ctx context.Context, session *pgx.Conn) error {
	var err error
	s.Slots, err = slotcatalog.Read(ctx, session)
	return err
}

func (s *Server) readDatabases(ctx context.Context, session *pgx.Conn) error {
	rows, err := session.Query(ctx, `SELECT datname::text FROM pg_catalog.pg_database
		WHERE NOT datallowconn OR NOT pg_catalog.has_database_privilege(oid, 'CONNECT')`)
	if err != nil {
		return err
	}
	s.ClosedDatabases, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}

func (s *Server) readSnapshot(ctx context.Context, session *pgx.Conn) error {
	return session.QueryRow(ctx, `SELECT (SELECT pg_catalog.has_function_privilege(oid, 'EXECUTE') FROM pg_catalog.pg_proc
		WHERE proname = 'pg_log_standby_snapshot' AND pronamespace = 'pg_catalog'::regnamespace)`).Scan(&s.CanLogSnapshot)
}

func (s *Server) readWalReceiver(ctx context.Context, session *pgx.Conn) error {
	var w WalReceiver
	var host string
	var port int
	err := session.QueryRow(ctx, `SELECT coalesce(status, ''), coalesce(slot_name, ''), coalesce(sender_host, ''),
		coalesce(sender_port, 0), coalesce(substring(conninfo from 'sslmode=(\w+)'), '') FROM pg_catalog.pg_stat_wal_receiver`).
		Scan(&w.Status, &w.SlotName, &host, &port, &w.SSLMode)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if host != "" {
		w.Sender = net.JoinHostPort(host, strconv.Itoa(port))
	}
	s.WalReceiver = &w
	return nil
}

// readWalsenders asks who receives WAL over the network from another machine. A
// role that may not know sees no address.
func (s *Server) readWalsenders(ctx context.Context, session *pgx.Conn) error {
	rows, err := session.Query(ctx, `SELECT coalesce(r.application_name, ''), host(r.client_addr),
		coalesce(s.ssl, false) OR coalesce(g.encrypted, false)
		FROM pg_catalog.pg_stat_replication r
		LEFT JOIN pg_catalog.pg_stat_ssl s USING (pid) LEFT JOIN pg_catalog.pg_stat_gssapi g USING (pid)
		WHERE r.client_addr IS NOT NULL AND r.client_addr IS DISTINCT FROM pg_catalog.inet_server_addr() ORDER BY r.pid`)
	if err != nil {
		return err
	}
	s.Walsenders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Walsender])
	return err
}

// tryReplication opens a connection as the helper does for its anchor.
func tryReplication(ctx context.Context, config *pgx.ConnConfig) string {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	replication := config.Config.Copy()
	replication.RuntimeParams["replication"] = "database"
	session, err := pgconn.ConnectConfig(ctx, replication)
	if err != nil {
		var server *pgconn.PgError
		if errors.As(err, &server) {
			return fmt.Sprintf("%s (SQLSTATE %s)", server.Message, server.Code)
		}
		return err.Error()
	}
	ending, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = session.Close(ending) // nothing was changed
	return ""
}
