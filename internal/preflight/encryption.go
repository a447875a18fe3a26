package preflight

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/slotferry/slotferry/relay"
)

// Encryption is how what travels between two ends can be read by others.
type Encryption struct {
	TLS   string // version; "": plain text
	Local bool   // both ends are on one machine: there is nobody in between
}

// plain reports whether somebody on the way can read along.
func (e Encryption) plain() bool { return e.TLS == "" && !e.Local }

// String says it for people.
func (e Encryption) String() string {
	switch {
	case e.TLS != "":
		return e.TLS
	case e.Local:
		return "plain text, within this machine"
	}
	return "plain text, across hosts"
}

// encryptionOf looks at a connection of our own.
func encryptionOf(conn net.Conn) Encryption {
	e := Encryption{Local: sameMachine(conn.LocalAddr(), conn.RemoteAddr())}
	if t, ok := conn.(*tls.Conn); ok {
		e.TLS = tls.VersionName(t.ConnectionState().Version)
	}
	return e
}

func sameMachine(local, remote net.Addr) bool {
	if remote.Network() == "unix" {
		return true
	}
	l, _, _ := net.SplitHostPort(local.String())
	r, _, _ := net.SplitHostPort(remote.String())
	return l == r || isLocal(remote.String())
}

// isLocal reports whether an address, with or without its port, is of this machine
// by its looks: a loopback address or a Unix socket.
func isLocal(address string) bool {
	if address == "" || strings.HasPrefix(address, "/") || strings.HasPrefix(address, "@") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// checkEncryption is a warning: what crosses hosts in plain text is rows of every
// table, in WAL, and whoever can change it can change the standby.
func (l *list) checkEncryption(s *Server) {
	l.should(!s.Encryption.plain(), Finding{
		Setting: "encryption", Value: s.Encryption.String(), Want: "TLS across hosts",
		Change: "sslmode=verify-full (or require) in the CONNINFO; the server needs ssl = on",
	})
}

// Walsender is a row of pg_stat_replication that came over the network.
type Walsender struct {
	ApplicationName string
	ClientAddr      string
	Encrypted       bool
}

// checkWalsenders looks at who receives WAL.
func (l *list) checkWalsenders(s *Server) {
	for _, w := range s.Walsenders {
		if !w.Encrypted && !isLocal(w.ClientAddr) {
			l.note(Warn, Finding{
				Setting: fmt.Sprintf("walsender to %q", w.ApplicationName), Value: "plain text to " + w.ClientAddr, Want: "TLS across hosts",
				Change: "sslmode=verify-full (or require) in the --upstream of the relay there, or in primary_conninfo if it connects itself",
			})
		}
	}
}

// checkReceived looks at how the standby receives WAL.
func (l *list) checkReceived(w *WalReceiver) {
	if w.SSLMode == "disable" && !isLocal(w.Sender) {
		l.note(Warn, Finding{
			Setting: "primary_conninfo", Value: "sslmode=disable, from " + w.Sender, Want: "TLS across hosts",
			Change: "give the relay --tls-cert and --tls-key and say sslmode=verify-full, or run the helper or solo on this machine",
		})
	}
}

// checkSessions looks at what passes through a relay. A session that is encrypted
// end to end is not read, and so not named.
func (l *list) checkSessions(r *relay.Status) {
	var plain []string
	checked := false
	for i := range r.Sessions {
		s := &r.Sessions[i]
		if s.Kind == relay.KindOpaque || s.Kind == relay.KindUnknown {
			continue
		}
		checked = true
		if s.DownstreamTLS == "" && !isLocal(s.Downstream) {
			plain = append(plain, "from "+s.Downstream)
		}
		if s.UpstreamTLS == "" && !isLocal(s.Upstream) {
			plain = append(plain, "to "+s.Upstream)
		}
	}
	if !checked {
		return
	}
	value := "none in plain text across hosts"
	if n := len(plain); n > 0 {
		value = "plain text " + strings.Join(plain[:min(n, 3)], ", ")
		if n > 3 {
			value += fmt.Sprintf(" and %d more", n-3)
		}
	}
	l.should(len(plain) == 0, Finding{
		Setting: "sessions", Value: value, Want: "TLS across hosts",
		Change: "--tls-cert and --tls-key for what comes in, sslmode=verify-full (or require) in --upstream for what goes out",
	})
}
