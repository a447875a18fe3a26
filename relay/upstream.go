package relay

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/conninfo"
)

// upstreamAddrs is what a relay takes from the upstream's conninfo.
type upstreamAddrs struct {
	hosts          []upstreamHost
	direct         bool           // sslnegotiation=direct
	login          *pgconn.Config // to find out what target_session_attrs asks for
	connectTimeout time.Duration
	answerTimeout  time.Duration // connect_timeout; 0: not given
	keepalive      net.KeepAliveConfig
	userTimeout    time.Duration // tcp_user_timeout; 0: the system's
}

// upstreamAddr is where to dial a host.
type upstreamAddr struct {
	network string // tcp or unix
	address string
}

// upstreamHost is one host of the conninfo.
type upstreamHost struct {
	upstreamAddr
	name string // as in the conninfo
	port uint16

	// ways are what to encrypt with, nil for not at all, in the order in which
	// sslmode has them tried.
	ways []*tls.Config
}

func (a upstreamAddr) String() string { return a.address }

const defaultConnectTimeout = 10 * time.Second

// parseUpstream reads a libpq conninfo. Its errors never show a password.
func parseUpstream(upstream string) (upstreamAddrs, error) {
	cfg, err := pgconn.ParseConfig(upstream)
	if err != nil {
		return upstreamAddrs{connectTimeout: defaultConnectTimeout}, err
	}
	u := upstreamAddrs{connectTimeout: cfg.ConnectTimeout, keepalive: net.KeepAliveConfig{Enable: true}}
	u.answerTimeout = u.connectTimeout
	if u.connectTimeout <= 0 || u.connectTimeout > time.Hour {
		u.connectTimeout, u.answerTimeout = defaultConnectTimeout, 0
	}
	u.login = cfg
	u.direct = cfg.SSLNegotiation == "direct"
	err = u.parseKeepalives(cfg.RuntimeParams)
	conninfo.LeaveOut(cfg)
	u.add(cfg.Host, cfg.Port, cfg.TLSConfig)
	for _, f := range cfg.Fallbacks {
		u.add(f.Host, f.Port, f.TLSConfig)
	}
	delete(cfg.RuntimeParams, "replication")
	cfg.RuntimeParams["application_name"] = sourceName
	return u, err
}

// add keeps the order. ParseConfig lists a host once for each way to encrypt it.
func (u *upstreamAddrs) add(host string, port uint16, way *tls.Config) {
	if way != nil {
		way = way.Clone()
		way.DynamicRecordSizingDisabled = true
		if way.MinVersion == 0 {
			way.MinVersion = tls.VersionTLS12 // ssl_min_protocol_version's default
		}
	}
	network, address := pgconn.NetworkAddress(host, port)
	a := upstreamAddr{network: network, address: address}
	for i := range u.hosts {
		if u.hosts[i].upstreamAddr == a {
			u.hosts[i].ways = append(u.hosts[i].ways, way)
			return
		}
	}
	u.hosts = append(u.hosts, upstreamHost{upstreamAddr: a, name: host, port: port, ways: []*tls.Config{way}})
}

// parseKeepalives takes libpq's TCP settings, which pgconn leaves among the
// runtime parameters.
func (u *upstreamAddrs) parseKeepalives(params map[string]string) error {
	var errs []error
	number := func(key string, unit time.Duration, set func(int, time.Duration)) {
		text, ok := params[key]
		if !ok {
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not a number", key))
			return
		}
		set(n, time.Duration(n)*unit)
	}
	number("keepalives", 0, func(n int, _ time.Duration) { u.keepalive.Enable = n != 0 })
	number("keepalives_idle", time.Second, func(_ int, d time.Duration) { u.keepalive.Idle = d })
	number("keepalives_interval", time.Second, func(_ int, d time.Duration) { u.keepalive.Interval = d })
	number("keepalives_count", 0, func(n int, _ time.Duration) { u.keepalive.Count = n })
	number("tcp_user_timeout", time.Millisecond, func(_ int, d time.Duration) { u.userTimeout = max(d, 0) })
	return errors.Join(errs...)
}

// strings lists the addresses for people.
func (u *upstreamAddrs) strings() []string {
	list := make([]string, len(u.hosts))
	for i, h := range u.hosts {
		list[i] = h.String()
	}
	return list
}
