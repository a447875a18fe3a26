package relay_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/testcert"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// pki is an authority and the files of a test.
type pki struct {
	*testcert.Authority
	t    testing.TB
	dir  string
	root string // the authority's certificate
}

func newPKI(t testing.TB) *pki {
	a, err := testcert.NewAuthority("slotferry test")
	must(t, err)
	p := &pki{a, t, t.TempDir(), ""}
	p.root = filepath.Join(p.dir, "root.crt")
	must(t, os.WriteFile(p.root, []byte(a.PEM()), 0o600))
	return p
}

// issue makes a certificate and returns its files.
func (p *pki) issue(names ...string) (cert, key string) {
	p.t.Helper()
	pair, err := p.Issue(names...)
	must(p.t, err)
	cert, key, err = pair.Write(p.dir, names[0])
	must(p.t, err)
	return cert, key
}

// encrypt turns TLS on at a server, with a certificate for these names.
func (p *pki) encrypt(s *cluster.Server, names ...string) {
	p.t.Helper()
	pair, err := p.Issue(names...)
	must(p.t, err)
	must(p.t, s.WriteDataFile("server.crt", pair.Cert))
	must(p.t, s.WriteDataFile("server.key", pair.Key))
	must(p.t, s.WriteDataFile("root.crt", p.PEM()))
	must(p.t, s.SetConfs(p.t.Context(), map[string]string{"ssl": "on", "ssl_ca_file": "root.crt"}))
}

func (p *pki) serverTLS(names ...string) *relay.ServerTLS {
	p.t.Helper()
	cert, key := p.issue(names...)
	config, err := relay.LoadServerTLS(relay.TLSFiles{Cert: cert, Key: key})
	must(p.t, err)
	return config
}

func tlsPrimary(t *testing.T, major int, p *pki, hba ...string) *cluster.Server {
	t.Helper()
	primary := clustertest.Primary(t, major, cluster.Config{HBA: hba})
	p.encrypt(primary, "localhost", "127.0.0.1")
	clustertest.Exec(t, primary, "postgres", "ALTER ROLE postgres PASSWORD 'secret'", "CREATE ROLE certified LOGIN")
	return primary
}

// login logs in with plain pgconn and returns what the server says of TLS.
func login(ctx context.Context, conninfo string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	conn, err := pgconn.Connect(ctx, conninfo)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	res, err := conn.Exec(ctx, "SELECT ssl::text || coalesce(client_dn, '') FROM pg_stat_ssl WHERE pid = pg_backend_pid()").ReadAll()
	if err != nil {
		return "", err
	}
	return string(res[0].Rows[0][0]), nil
}

// The upstream leg follows sslmode as libpq does.
func TestUpstreamTLS(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		p := newPKI(t)
		stranger := newPKI(t)
		ssl, nossl := "hostssl all all 127.0.0.1/32 scram-sha-256", "hostnossl all all 127.0.0.1/32 scram-sha-256"
		primary := tlsPrimary(t, major, p, ssl, nossl)
		clientCert, clientKey := p.issue("certified")
		otherCert, otherKey := stranger.issue("certified")
		cert := "hostssl all certified 127.0.0.1/32 cert"
		via17 := "true"
		if major < 17 {
			via17 = "sslnegotiation=direct needs PostgreSQL 17"
		}
		for name, tt := range map[string]struct {
			hba      []string
			conninfo string // added to host and port
			user     string
			want     string // of pg_stat_ssl, or part of the error
		}{
			"disable":                    {[]string{ssl, nossl}, "sslmode=disable", "", "false"},
			"disable, hostssl":           {[]string{ssl}, "sslmode=disable", "", "no encryption"},
			"allow":                      {[]string{ssl, nossl}, "sslmode=allow", "", "false"},
			"allow, hostssl":             {[]string{ssl}, "sslmode=allow", "", "true"},
			"default":                    {[]string{ssl, nossl}, "", "", "true"},
			"prefer, hostnossl":          {[]string{nossl}, "sslmode=prefer", "", "false"},
			"require":                    {[]string{ssl}, "sslmode=require", "", "true"},
			"require, hostnossl":         {[]string{nossl}, "sslmode=require", "", "SSL encryption"},
			"verify-ca":                  {[]string{ssl}, "sslmode=verify-ca sslrootcert=" + p.root, "", "true"},
			"verify-ca, stranger":        {[]string{ssl}, "sslmode=verify-ca sslrootcert=" + stranger.root, "", "sslrootcert"},
			"verify-full":                {[]string{ssl}, "host=localhost sslmode=verify-full sslrootcert=" + p.root, "", "true"},
			"verify-full, no root":       {[]string{ssl}, "sslmode=verify-full", "", "sslrootcert"},
			"direct":                     {[]string{ssl}, "sslmode=require sslnegotiation=direct", "", via17},
			"client certificate":         {[]string{cert, ssl}, "sslmode=require sslcert=" + clientCert + " sslkey=" + clientKey, "certified", "true/CN=certified"},
			"no client certificate":      {[]string{cert, ssl}, "sslmode=require", "certified", "client certificate"},
			"foreign client certificate": {[]string{cert, ssl}, "sslmode=require sslcert=" + otherCert + " sslkey=" + otherKey, "certified", "TLS"},
		} {
			t.Run(name, func(t *testing.T) {
				must(t, primary.SetHBA(t.Context(), tt.hba...))
				r := startRelay(t, relay.Config{
					Upstream: fmt.Sprintf("host=127.0.0.1 port=%d %s", primary.Port(), tt.conninfo), Mode: relay.ModeSplice})
				user := ""
				if tt.user != "" {
					user = "user=" + tt.user
				}
				got, err := login(t.Context(), via(r, "password=secret "+user))
				if err != nil {
					got = explain(err)
				}
				if !strings.Contains(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
		t.Run("verify-full, other name", func(t *testing.T) {
			must(t, primary.SetHBA(t.Context(), ssl))
			p.encrypt(primary, "elsewhere")
			r := startRelay(t, relay.Config{Mode: relay.ModeSplice,
				Upstream: fmt.Sprintf("host=localhost port=%d sslmode=verify-full sslrootcert=%s", primary.Port(), p.root)})
			if _, err := login(t.Context(), via(r, "password=secret")); err == nil || !strings.Contains(explain(err), "one of the certificate's") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("no TLS there", func(t *testing.T) {
			must(t, primary.SetConf(t.Context(), "ssl", "off"))
			must(t, primary.SetHBA(t.Context(), nossl))
			for mode, want := range map[string]string{"require": "server does not support SSL, but SSL was required", "prefer": "false"} {
				r := startRelay(t, relay.Config{Mode: relay.ModeSplice,
					Upstream: fmt.Sprintf("host=127.0.0.1 port=%d sslmode=%s", primary.Port(), mode)})
				got, err := login(t.Context(), via(r, "password=secret"))
				if err != nil {
					got = explain(err)
				}
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %q, want %q", mode, got, want)
				}
			}
		})
	})
}

// explain is an error with its hint.
func explain(err error) string {
	text := err.Error()
	if pe := pgError(err); pe != nil {
		text += " " + pe.Hint
	}
	return text
}

// Channel binding in all combinations: what works, and what ends with a
// sentence that says what to change. The clients are libpq's.
func TestChannelBinding(t *testing.T) {
	p := newPKI(t)
	primary := tlsPrimary(t, 17, p, "host all all 127.0.0.1/32 scram-sha-256")
	const both = "channel binding cannot pass through a relay that ends TLS on both sides"
	for _, tt := range []struct{ downstream, upstream, binding, want string }{
		{"plain", "disable", "disable", ""}, {"plain", "disable", "prefer", ""},
		{"plain", "require", "disable", ""}, {"plain", "require", "prefer", ""},
		{"plain", "require", "require", "channel binding"},
		{"tls", "disable", "disable", ""}, {"tls", "disable", "prefer", ""}, {"tls", "disable", "require", "channel binding"},
		{"tls", "require", "disable", ""}, {"tls", "require", "prefer", both}, {"tls", "require", "require", "channel binding"},
		{"pass", "require", "disable", ""}, {"pass", "require", "prefer", ""}, {"pass", "require", "require", ""},
	} {
		t.Run(strings.Join([]string{tt.downstream, tt.upstream, tt.binding}, "-"), func(t *testing.T) {
			cfg := relay.Config{Mode: relay.ModeSplice,
				Upstream: fmt.Sprintf("host=127.0.0.1 port=%d sslmode=%s", primary.Port(), tt.upstream)}
			mode := "require"
			switch tt.downstream {
			case "plain":
				mode = "disable"
			case "tls":
				cfg.TLS = p.serverTLS("localhost")
			}
			r := startRelay(t, cfg)
			conninfo := strings.Replace(via(r, ""), "sslmode=disable", "sslmode="+mode, 1) + " password=secret channel_binding=" + tt.binding
			for range 3 {
				cmd := clustertest.Command(t.Context(), t, primary, "psql", "-XAtd", conninfo, "-c", "SELECT 'well'")
				out, err := cmd.CombinedOutput()
				if tt.want == "" && (err != nil || strings.TrimSpace(string(out)) != "well") {
					t.Fatalf("psql: %v, %s", err, out)
				}
				if tt.want != "" && (err == nil || !strings.Contains(string(out), tt.want)) {
					t.Fatalf("psql: %v, %s, want %q", err, out, tt.want)
				}
			}
			if tt.want == "" {
				return
			}
			line := "a client ended its login when SCRAM without channel binding was offered"
			if tt.want == both {
				line = "cannot log in through this relay"
			}
			require(t, "a line in the log", func(context.Context) (bool, string) {
				log := r.log.String()
				return strings.Count(log, line) == 1 && strings.Contains(log, "channel_binding=disable"), log
			})
			if n := r.Status().Accepted; n != 3 {
				t.Errorf("%d connections for 3 logins", n)
			}
		})
	}
}

// The relay's own certificate: every handshake of libpq, direct TLS, what is
// refused, and a new certificate without a restart.
func TestDownstreamTLS(t *testing.T) {
	p := newPKI(t)
	primary := clustertest.Primary(t, 17, cluster.Config{})
	cert, key := p.issue("localhost")
	files := relay.TLSFiles{Cert: cert, Key: key}
	config, err := relay.LoadServerTLS(files)
	must(t, err)
	upstream := primary.Conninfo("postgres") + " sslmode=disable"
	r := startRelay(t, relay.Config{Upstream: upstream, Mode: relay.ModeSplice, TLS: config})
	_, port, _ := net.SplitHostPort(r.addr)
	base := "host=localhost port=" + port + " user=postgres dbname=postgres sslrootcert=" + p.root
	for _, params := range []string{
		"sslmode=disable", "sslmode=prefer", "sslmode=require", "sslmode=verify-full",
		"sslmode=verify-full sslnegotiation=direct", "gssencmode=prefer sslmode=verify-full",
	} {
		if got := clustertest.Run(t, primary, "psql", "-XAtd", base+" "+params, "-c", "SELECT 'well'"); strings.TrimSpace(got) != "well" {
			t.Errorf("%s: %q", params, got)
		}
	}

	dial := func(protos ...string) error {
		conn, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protos})
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(waitTimeout))
		_, err = conn.Read(make([]byte, 1))
		return err
	}
	for _, protos := range [][]string{nil, {"http/1.1"}} {
		if err := dial(protos...); err == nil {
			t.Errorf("direct TLS with ALPN %q is accepted", protos)
		}
	}
	require(t, "a line in the log", func(context.Context) (bool, string) {
		return strings.Contains(r.log.String(), "without ALPN"), r.log.String()
	})

	// Another certificate, in the same place; then one that does not fit its key.
	serial := func() string {
		conn, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}})
		must(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	p.issue("localhost")
	must(t, config.Reload())
	after := serial()
	if before == after {
		t.Error("the certificate is the old one")
	}
	other, err := p.Issue("localhost")
	must(t, err)
	must(t, os.WriteFile(key, []byte(other.Key), 0o600))
	if err := config.Reload(); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("a key that does not fit gives %v", err)
	}
	if got := serial(); got != after {
		t.Error("a failed reload took the certificate away")
	}
	must(t, os.Chmod(key, 0o644))
	_, err = relay.LoadServerTLS(relay.TLSFiles{Cert: cert, Key: key, ClientCA: key})
	for _, want := range []string{"group or world access", "does not match", "no certificate in"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// With a client CA nobody gets in without a certificate.
func TestDownstreamClientCertificate(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	primary := clustertest.Primary(t, 18, cluster.Config{})
	cert, key := p.issue("localhost")
	config, err := relay.LoadServerTLS(relay.TLSFiles{Cert: cert, Key: key, ClientCA: p.root})
	must(t, err)
	r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres") + " sslmode=disable", Mode: relay.ModeSplice, TLS: config})
	own, ownKey := p.issue("standby1")
	foreign, foreignKey := stranger.issue("standby1")
	for params, want := range map[string]string{
		"sslmode=require sslcert=" + own + " sslkey=" + ownKey:         "",
		"sslmode=require sslcert=" + foreign + " sslkey=" + foreignKey: "TLS",
		"sslmode=require": "TLS",
		"sslmode=disable": "connection requires a valid client certificate",
	} {
		_, err := login(t.Context(), strings.Replace(via(r, ""), "sslmode=disable", params, 1))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(want))) {
			t.Errorf("%s: %v", params, err)
		}
	}
}

// The helper's relay and its sidecar connect to a relay over TLS, and that to
// the primary: slot messages flow, and WAL.
func TestSlotMessagesOverTLS(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		p := newPKI(t)
		primary := tlsPrimary(t, major, p, "hostssl all all 127.0.0.1/32 scram-sha-256", "hostssl replication all 127.0.0.1/32 scram-sha-256")
		secure := " password=secret sslmode=verify-full sslrootcert=" + p.root
		upstream := fmt.Sprintf("host=localhost port=%d user=postgres dbname=postgres", primary.Port()) + secure
		source := startSource(t, primary, relay.SlotSourceConfig{Conninfo: upstream, Heartbeat: 20 * time.Millisecond, PollInterval: 20 * time.Millisecond})
		splice := startRelay(t, relay.Config{Upstream: upstream, Mode: relay.ModeSplice, Slots: source, TLS: p.serverTLS("localhost")})
		_, port, _ := net.SplitHostPort(splice.addr)
		toRelay := "host=localhost port=" + port + " user=postgres dbname=postgres" + secure
		sink := new(sink)
		strip := startRelay(t, relay.Config{Upstream: toRelay, Mode: relay.ModeStrip, Sink: sink})
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", PrimaryConninfo: via(strip, "application_name=standby password=secret")})
		clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('orders', 'pgoutput')")
		sink.wait(t, "the slot", func(m *protocol.SlotMessage) bool { return len(m.Slots) == 1 && m.Slots[0].Name == "orders" })
		traffic(t, primary, 30)
		must(t, primary.WaitForStandby(ctx, standby))
		if found := segmentZero(t, standby); len(found) > 0 {
			t.Errorf("traces of slot messages in pg_wal: %q", found)
		}
		st := splice.Status().Sessions[0]
		if st.DownstreamTLS != "TLS 1.3" || st.UpstreamTLS != "TLS 1.3" || !st.OptedIn {
			t.Errorf("session %+v", st)
		}

		cfg, err := pgconn.ParseConfig(toRelay + " replication=true channel_binding=disable")
		must(t, err)
		cfg.RuntimeParams[protocol.OptInParameter] = protocol.OptInValue
		conn, err := pgconn.ConnectConfig(ctx, cfg)
		must(t, err)
		defer conn.Close(context.Background())
		next, end := openSidecar(t, conn)
		if m := next(); len(m.Slots) != 1 {
			t.Errorf("message %+v", m)
		}
		end()
	})
}
