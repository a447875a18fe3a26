package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/internal/testcert"
)

// conninfoOf returns a conninfo of an address that a relay listens on.
func conninfoOf(t *testing.T, addr string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return "host=" + host + " port=" + port + " user=postgres dbname=postgres sslmode=disable"
}

// oneSlotReady reports whether everything is ready and there is something that
// can be.
func oneSlotReady(d *statusdoc.Document) bool {
	return d.Ready && d.Helper != nil && len(d.Helper.Slots) == 1 && d.Helper.Slots[0].State == decoder.StateReady
}

func primaryWithSlot(t *testing.T, major int) *cluster.Server {
	t.Helper()
	primary := clustertest.Primary(t, major, cluster.Config{})
	clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('orders', 'test_decoding')",
		"CREATE TABLE orders (id int)", "INSERT INTO orders SELECT generate_series(1, 10)")
	return primary
}

// passed moves the slot past where the anchor can be.
func passed(t *testing.T, primary *cluster.Server) {
	t.Helper()
	clustertest.Exec(t, primary, "postgres", "INSERT INTO orders SELECT generate_series(1, 10)",
		"SELECT pg_replication_slot_advance('orders', pg_current_wal_lsn())")
}

func stopsCleanly(t *testing.T, daemons ...*daemon) {
	t.Helper()
	for _, d := range daemons {
		if status := d.end(t, syscall.SIGTERM); status != 0 {
			t.Errorf("exit status after SIGTERM is %d:\n%s", status, d.log())
		}
	}
}

func anchorLive(d *statusdoc.Document) bool {
	return d.Helper != nil && d.Helper.Anchor.Phase == "live"
}

// TestTwoHops and TestSidecar check the wiring of the commands; that slots
// survive a failover, on every major version, is checked in internal/rig.
func TestTwoHops(t *testing.T) {
	major := slices.Max(clustertest.Majors(t))
	primary := primaryWithSlot(t, major)
	relayAddr, helperAddr := freeAddr(t), freeAddr(t)
	relay := start(t, nil, "relay", "--listen", relayAddr, "--upstream", primary.Conninfo("postgres"))
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: helperAddr})
	helper := start(t, nil, "helper", "--listen", helperAddr, "--upstream", conninfoOf(t, relayAddr),
		"--standby", standby.Conninfo("postgres"), "--state-dir", t.TempDir())
	relay.document(t, "the relay to be ready", func(d *statusdoc.Document) bool { return d.Ready })
	helper.document(t, "an anchor", anchorLive)
	metrics := map[string]bool{}
	metricNames(t, metrics, relay, helper) // that of the reason is there while the slot is not ready
	passed(t, primary)
	helper.document(t, "the slot to be ready", oneSlotReady)
	metricNames(t, metrics, relay, helper)
	usesOnlyMetricsOf(t, metrics)
	stopsCleanly(t, helper, relay)
}

// TestSidecar has both connections to the relay encrypted, and a helper that checks
// the relay's certificate and its name: slot state flows inside TLS.
func TestSidecar(t *testing.T) {
	major := slices.Max(clustertest.Majors(t))
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, err := pair.Write(dir, "relay")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root.crt")
	if err := os.WriteFile(root, []byte(authority.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	primary := primaryWithSlot(t, major)
	relayAddr := freeAddr(t)
	secure := strings.NewReplacer("host=127.0.0.1", "host=localhost", "sslmode=disable", "sslmode=verify-full sslrootcert="+root).
		Replace(conninfoOf(t, relayAddr))
	relay := start(t, nil, "relay", "--listen", relayAddr, "--upstream", primary.Conninfo("postgres"), "--tls-cert", cert, "--tls-key", key)
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby",
		PrimaryConninfo: strings.Replace(conninfoOf(t, relayAddr), "sslmode=disable", "sslmode=require", 1) + " application_name=standby"})
	helper := start(t, nil, "helper", "--upstream", secure,
		"--standby", standby.Conninfo("postgres"), "--state-dir", filepath.Join(t.TempDir(), "made", "here"))
	helper.document(t, "an anchor", anchorLive)
	passed(t, primary)
	helper.document(t, "the slot to be ready", oneSlotReady)
	d := relay.document(t, "the helper's connection", func(d *statusdoc.Document) bool { return len(d.Relay.Sessions) == 2 })
	for _, s := range d.Relay.Sessions {
		if s.DownstreamTLS != "TLS 1.3" {
			t.Errorf("session %+v", s)
		}
	}
	stopsCleanly(t, helper, relay)
}

func TestSolo(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		primary := primaryWithSlot(t, major)
		addr, state := freeAddr(t), t.TempDir()
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: addr})
		// All settings from the environment.
		solo := start(t, []string{
			"SLOTFERRY_LISTEN=" + addr, "SLOTFERRY_UPSTREAM=" + primary.Conninfo("postgres"),
			"SLOTFERRY_STANDBY=" + standby.Conninfo("postgres"), "SLOTFERRY_STATE_DIR=" + state,
			"SLOTFERRY_NODE_NAME=db2, rack 7",
		}, "solo")
		solo.document(t, "an anchor", anchorLive)
		passed(t, primary)
		d := solo.document(t, "the slot to be ready", oneSlotReady)
		if d.Source() == nil || !d.Source().Connected {
			t.Errorf("slot source is %+v", d.Source())
		}
		raw, err := os.ReadFile(filepath.Join(state, "ledger.json"))
		if err != nil || !strings.Contains(string(raw), `"host": "db2, rack 7"`) || d.Host != "db2, rack 7" {
			t.Errorf("%v, ledger %s, host %q", err, raw, d.Host)
		}
		stopsCleanly(t, solo)
	})
}
