package cluster

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Conninfo returns a connection string, as keywords and values, for TCP.
func (s *Server) Conninfo(dbname string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", Host, s.Port(), Superuser, quoteConninfo(dbname))
}

// ConninfoURI returns a connection URI for TCP.
func (s *Server) ConninfoURI(dbname string) string {
	u := url.URL{
		Scheme: "postgresql",
		User:   url.User(Superuser),
		Host:   Host + ":" + strconv.Itoa(s.Port()),
		Path:   "/" + dbname,
	}
	return u.String()
}

// Addr returns the TCP address, as host:port.
func (s *Server) Addr() string { return Host + ":" + strconv.Itoa(s.Port()) }

// ReplicationConninfo returns primary_conninfo for a standby of this server.
func (s *Server) ReplicationConninfo(applicationName string) string {
	return s.Conninfo("postgres") + " application_name=" + quoteConninfo(applicationName)
}

// quoteConninfo quotes a value of a keyword/value connection string, if it must be.
func quoteConninfo(value string) string {
	if value != "" && !strings.ContainsAny(value, ` '\=`) {
		return value
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// Connect opens a session of the superuser over the Unix socket, which works
// whatever Config.HBA says. The caller closes it.
func (s *Server) Connect(ctx context.Context, dbname string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(s.socketConninfo(dbname))
	if err != nil {
		return nil, fmt.Errorf("connect to server %q: %w", s.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to server %q: %w", s.name, err)
	}
	return conn, nil
}

// ConnectReplication opens a walsender session over the Unix socket: for logical
// replication in a database, or, when dbname is empty, for physical replication.
func (s *Server) ConnectReplication(ctx context.Context, dbname string) (*pgconn.PgConn, error) {
	mode := "database"
	if dbname == "" {
		mode, dbname = "true", "replication"
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	conn, err := pgconn.Connect(ctx, s.socketConninfo(dbname)+" replication="+mode)
	if err != nil {
		return nil, fmt.Errorf("connect to server %q for replication: %w", s.name, err)
	}
	return conn, nil
}

func (s *Server) socketConninfo(dbname string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable application_name=cluster",
		quoteConninfo(s.socketDir), s.Port(), Superuser, quoteConninfo(dbname))
}

// Exec runs statements one after another in one session, each in a transaction of
// its own unless it says otherwise. A string may hold several statements.
func (s *Server) Exec(ctx context.Context, dbname string, statements ...string) error {
	conn, err := s.Connect(ctx, dbname)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("execute %q on server %q: %w", sql, s.name, err)
		}
	}
	return nil
}

// QueryValue runs a query that returns one row of one column, in a session of its
// own. T may be a pointer where the value may be NULL.
func QueryValue[T any](ctx context.Context, s *Server, dbname, sql string, args ...any) (T, error) {
	return query(ctx, s, dbname, sql, args, func(rows pgx.Rows) (T, error) {
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	})
}

// QueryColumn runs a query that returns rows of one column, in a session of its
// own.
func QueryColumn[T any](ctx context.Context, s *Server, dbname, sql string, args ...any) ([]T, error) {
	return query(ctx, s, dbname, sql, args, func(rows pgx.Rows) ([]T, error) {
		return pgx.CollectRows(rows, pgx.RowTo[T])
	})
}

func query[R any](ctx context.Context, s *Server, dbname, sql string, args []any,
	collect func(pgx.Rows) (R, error)) (R, error) {
	var none R
	conn, err := s.Connect(ctx, dbname)
	if err != nil {
		return none, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return none, fmt.Errorf("query %q on server %q: %w", sql, s.name, err)
	}
	result, err := collect(rows)
	if err != nil {
		return none, fmt.Errorf("query %q on server %q: %w", sql, s.name, err)
	}
	return result, nil
}
