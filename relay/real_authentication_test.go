package relay_test

import (
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/relay"
)

// Every way of logging in that a server can ask for without other machines passes
// through, and so does every refusal; the server says by which way it was.
func TestAuthenticationMethodsPass(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newPKI(t)
		primary := clustertest.Primary(t, major, cluster.Config{HBA: []string{
			"host all trusted 127.0.0.1/32 trust", "host all plain 127.0.0.1/32 password", "host all hashed 127.0.0.1/32 md5",
			"host all scrammed 127.0.0.1/32 scram-sha-256", "host all rejected 127.0.0.1/32 reject", "host all all 127.0.0.1/32 trust",
		}})
		p.encrypt(primary, "localhost")
		clustertest.Exec(t, primary, "postgres",
			"CREATE ROLE trusted LOGIN", "CREATE ROLE plain LOGIN PASSWORD 'secret'", "CREATE ROLE scrammed LOGIN PASSWORD 'secret'",
			"CREATE ROLE rejected LOGIN", "SET password_encryption = md5", "CREATE ROLE hashed LOGIN PASSWORD 'secret'")
		upstream := primary.Conninfo("postgres")
		for name, cfg := range map[string]relay.Config{
			"plain": {Upstream: upstream + " sslmode=disable", Mode: relay.ModePlain},
			"splice, TLS on both legs": {Upstream: upstream + " sslmode=require", Mode: relay.ModeSplice,
				TLS: p.serverTLS("localhost")},
		} {
			r := startRelay(t, cfg)
			conninfo := via(r, "")
			if cfg.TLS != nil {
				conninfo = strings.Replace(conninfo, "sslmode=disable", "sslmode=require channel_binding=disable", 1)
			}
			for user, want := range map[string]string{
				"trusted": "", "plain": "password:plain", "hashed": "md5:hashed", "scrammed": "scram-sha-256:scrammed",
				"rejected": "pg_hba.conf rejects connection", "nobody": `role "nobody" does not exist`,
			} {
				cmd, out := command(t, primary, "psql", "-XAtd", conninfo+" user="+user, "-c", "SELECT system_user")
				err := cmd.Run()
				switch refused := user == "rejected" || user == "nobody"; {
				case refused && (err == nil || !strings.Contains(out.String(), want)):
					t.Errorf("%s, %s: %v, %s, want %q", name, user, err, out, want)
				case !refused && (err != nil || strings.TrimSpace(out.String()) != want):
					t.Errorf("%s, %s: %v, %q, want %q", name, user, err, out, want)
				}
			}
		}
	})
}
