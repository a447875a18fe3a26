package relay

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// upstreamAddrs is what a relay takes from the upstream's conninfo.
type upstreamAddrs struct {
	addrs          []upstreamAddr
	connectTimeout time.Duration
	keepalive      net.KeepAliveConfig
	userTimeout    time.Duration // tcp_user_timeout; 0: the system's
}

// upstreamAddr is one host to dial.
type upstreamAddr struct {
	network string // tcp or unix
	address string
}

func (a upstreamAddr) String() string { return a.address }

const defaultConnectTimeout = 10 * time.Second

// parseUpstream reads a libpq conninfo. Its errors never show a password.
func parseUpstream(conninfo string) (upstreamAddrs, error) {
	cfg, err := pgconn.ParseConfig(conninfo)
	if err != nil {
		return upstreamAddrs{connectTimeout: defaultConnectTimeout}, err
	}
	u := upstreamAddrs{connectTimeout: cfg.ConnectTimeout, keepalive: net.KeepAliveConfig{Enable: true}}
	if u.connectTimeout <= 0 || u.connectTimeout > time.Hour {
		u.connectTimeout = defaultConnectTimeout
	}
	u.add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		u.add(f.Host, f.Port)
	}
	return u, u.parseKeepalives(cfg.RuntimeParams)
}

// add keeps the order and drops what is there already: ParseConfig lists a
// host once for each way to encrypt it.
func (u *upstreamAddrs) add(host string, port uint16) {
	network, address := pgconn.NetworkAddress(host, port)
	a := upstreamAddr{network: network, address: address}
	for _, have := range u.addrs {
		if have == a {
			return
		}
	}
	u.addrs = append(u.addrs, a)
}

// tcpSettings are libpq's settings of a connection's socket, which pgconn
// would send to the server as parameters.
var tcpSettings = []string{
	"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
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
	list := make([]string, len(u.addrs))
	for i, a := range u.addrs {
		list[i] = a.String()
	}
	return list
}
