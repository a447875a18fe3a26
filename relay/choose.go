package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// hostsFor returns the hosts to try for a new session, in order: only, if it is
// given; the one that target_session_attrs asks for, if that is set; else all,
// with the one in front that the slot source reads from, so that slot messages
// come with the WAL of the server they describe, and streams are held back where
// walsenders are read.
func (r *Relay) hostsFor(ctx context.Context, only *upstreamAddr) ([]upstreamHost, error) {
	hosts := r.addrs.hosts
	switch {
	case only != nil:
		return slices.DeleteFunc(slices.Clone(hosts), func(h upstreamHost) bool { return h.upstreamAddr != *only }), nil
	case len(hosts) > 1 && r.addrs.login.ValidateConnect != nil:
		return r.probe(ctx)
	case len(hosts) > 1 && r.cfg.Near != nil:
		return inFront(ctx, hosts, r.cfg.Near.address()), nil
	default:
		return hosts, nil
	}
}

// probed is the last answer to target_session_attrs.
type probed struct {
	asked time.Time
	hosts []upstreamHost
	err   error
}

// probe logs in to each host as libpq does, with user, password and database of
// the conninfo, until target_session_attrs is content. Sessions that wait for
// the same answer share it; it is not kept for others, since a promotion makes
// it wrong.
func (r *Relay) probe(ctx context.Context) ([]upstreamHost, error) {
	came := time.Now()
	select {
	case p := <-r.probes:
		if !p.asked.After(came) {
			p = probed{asked: time.Now()}
			p.hosts, p.err = r.probeHosts(ctx)
		}
		r.probes <- p
		return p.hosts, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// probeHosts is bounded by the connect timeout of each host.
func (r *Relay) probeHosts(ctx context.Context) ([]upstreamHost, error) {
	var errs []error
	var causes []string
	var second []upstreamHost // prefer-standby: better than none
	for _, h := range r.addrs.hosts {
		err := r.probeHost(ctx, h)
		var notPreferred *pgconn.NotPreferredError
		switch {
		case err == nil:
			return []upstreamHost{h}, nil
		case errors.As(err, &notPreferred):
			second = append(second, h)
		}
		errs = append(errs, fmt.Errorf("upstream %s: %w", h, err))
		causes = append(causes, fmt.Sprintf("upstream %s: %s", h, probeCause(err)))
	}
	if len(second) > 0 {
		return second, nil
	}
	return nil, withHint(&probeError{errors.Join(errs...), causes}, "target_session_attrs needs user and database of an ordinary login in the "+
		"upstream conninfo, and one host that is what it asks for.")
}

// probeError is why no host is what target_session_attrs asks for. What the servers
// said to the relay's own login is for the log: those who are told here have not
// logged in.
type probeError struct {
	err    error
	causes []string
}

func (e *probeError) Error() string { return e.err.Error() }
func (e *probeError) Unwrap() error { return e.err }

// brief is the error for those who have not logged in.
func brief(err error) string {
	var probe *probeError
	if errors.As(err, &probe) {
		return strings.Join(probe.causes, "; ")
	}
	return err.Error()
}

// probeCause is the cause without user, database, and the server's own words.
func probeCause(err error) string {
	var refused *pgconn.PgError
	var unreached *net.OpError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &refused):
		return "the relay's own login is refused, SQLSTATE " + refused.Code
	case errors.As(err, &unreached):
		return rootCause(err).Error()
	case errors.As(err, &connect), errors.Is(err, context.DeadlineExceeded):
		return "the relay's own login fails"
	}
	return "it is not what target_session_attrs asks for"
}

func (r *Relay) probeHost(ctx context.Context, h upstreamHost) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ConnectTimeout)
	defer cancel()
	cfg := r.addrs.login.Copy()
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = h.name, h.port, h.ways[0], nil
	for _, way := range h.ways[1:] {
		cfg.Fallbacks = append(cfg.Fallbacks, &pgconn.FallbackConfig{Host: h.name, Port: h.port, TLSConfig: way})
	}
	// pgconn takes a server that is not preferred after all others; here that is
	// for probeHosts to decide.
	validate := cfg.ValidateConnect
	var unwanted error
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		unwanted = validate(ctx, conn)
		return unwanted
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if unwanted != nil {
		err = unwanted
	}
	if conn != nil {
		closeConn(conn)
	}
	return err
}

// inFront puts the host with an address, as a net.Conn gives it, before the
// others.
func inFront(ctx context.Context, hosts []upstreamHost, address string) []upstreamHost {
	i := slices.IndexFunc(hosts, func(h upstreamHost) bool {
		if h.address == address {
			return true
		}
		ip, port, err := net.SplitHostPort(address)
		if err != nil || h.network != "tcp" || port != strconv.Itoa(int(h.port)) {
			return false
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, h.name)
		return err == nil && slices.Contains(ips, ip)
	})
	if i <= 0 {
		return hosts
	}
	front := append([]upstreamHost{hosts[i]}, hosts[:i]...)
	return append(front, hosts[i+1:]...)
}
