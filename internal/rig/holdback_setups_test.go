package rig

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/internal/testcert"
)

// heldSetup is a subscriber behind a standby, in some way that servers and
// slotferry can be put together.
type heldSetup struct {
	*testPair
	from    *Node    // what the subscriber gets its rows from
	standby *Node    // behind whose flushes
	relay   *Process // by way of which
	via     string   // conninfo of the subscriber

	options string      // more of CREATE SUBSCRIPTION
	during  func()      // what happens while the stream is held; nil: nothing
	files   [][2]string // of the subscriber's data directory, with what is in them
}

// Hold-back as it is set up in earnest. Each setup is tried on one major: what
// differs between majors is tried elsewhere.
func TestSetupsOfHoldBack(t *testing.T) {
	t.Parallel()
	majors := clustertest.Majors(t)
	for i, setup := range []struct {
		name string
		make func(t *testing.T, major int) *heldSetup
	}{
		{"solo", heldBySolo}, {"TLS that ends at the relay", heldInTLS}, {"cascade", heldInCascade}, {"a proxy before the server", heldByProxy},
	} {
		major := majors[i%len(majors)]
		t.Run(fmt.Sprintf("%s/pg%d", setup.name, major), func(t *testing.T) {
			t.Parallel()
			setup.make(t, major).check(major)
		})
	}
}

// The relay of a standby's solo is all that there is.
func heldBySolo(t *testing.T, major int) *heldSetup {
	p := newTestPairOf(t, major, Config{Mode: Solo, Flags: []string{"--advance-interval", "1s", "--refuse-tls", "--hold-back", "b"}})
	return &heldSetup{testPair: p, from: p.A, standby: p.B, relay: p.B.Helper, via: p.subscriberConninfo("b-helper")}
}

// The subscriber insists on TLS, with the relay's name in the certificate, and has
// large transactions applied while they go on and prepared ones as such.
func heldInTLS(t *testing.T, major int) *heldSetup {
	authority, err := testcert.NewAuthority("slotferry test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(t.TempDir(), "relay")
	if err != nil {
		t.Fatal(err)
	}
	p := newTestPairOf(t, major, Config{Mode: Sidecar, Flags: []string{"--advance-interval", "1s"},
		Settings:   map[string]string{"max_prepared_transactions": "5"},
		RelayFlags: []string{"--hold-back", "ANY 1 (b)", "--tls-cert", cert, "--tls-key", key}})
	return &heldSetup{testPair: p, from: p.A, standby: p.B, relay: p.A.Relay,
		via:     fmt.Sprintf("host=localhost port=%d user=postgres dbname=postgres sslmode=verify-full sslrootcert=root.crt", p.ports["a-relay"]),
		options: ", streaming = parallel, two_phase = on", files: [][2]string{{"root.crt", authority.PEM()}}}
}

// The subscriber of a standby is held back behind that standby's own standby.
func heldInCascade(t *testing.T, major int) *heldSetup {
	p := newTestPair(t, major, Inline)
	p.waitAnchor(p.B)
	c := p.cascade("--refuse-tls", "--hold-back", "c")
	return &heldSetup{testPair: p, from: p.B, standby: c, relay: c.Relay, via: p.subscriberConninfo("c-upstream-relay")}
}

// Between relay and server is a TCP proxy, as before a cluster of servers. When it
// has lost all connections, new streams are held as the old ones were.
func heldByProxy(t *testing.T, major int) *heldSetup {
	var proxies []*faultproxy.Proxy
	p := newTestPairOf(t, major, Config{Mode: Sidecar, Flags: []string{"--advance-interval", "1s"},
		RelayFlags: []string{"--refuse-tls", "--hold-back", "b"},
		Via: func(leg Leg, node string, port int) (int, error) {
			if leg != LegUpstream || node != "a" {
				return port, nil
			}
			proxy, err := faultproxy.New(fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return 0, err
			}
			t.Cleanup(func() { _ = proxy.Close() })
			proxies = append(proxies, proxy)
			return proxy.Port(), nil
		}})
	s := &heldSetup{testPair: p, from: p.A, standby: p.B, relay: p.A.Relay, via: p.subscriberConninfo("a-relay")}
	s.during = func() {
		before := p.waitHeld(s.relay)
		for _, proxy := range proxies {
			proxy.Cut()
		}
		p.until("another stream that is held", func(context.Context) (bool, string) {
			now := p.waitHeld(s.relay)
			return now.ID != before.ID, fmt.Sprintf("%+v", now)
		})
	}
	return s
}

// subscriberConninfo is how a subscriber reaches what listens on one of the ports.
func (p *testPair) subscriberConninfo(port string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres", p.ports[port])
}

// check stops the standby. The subscriber gets nothing that the standby has not,
// and all of it when the standby goes on.
func (s *heldSetup) check(major int) {
	t := s.t
	subscriber := clustertest.Primary(t, major, cluster.Config{Name: "subscriber", Settings: map[string]string{"max_prepared_transactions": "5"}})
	for _, f := range s.files {
		if err := subscriber.WriteDataFile(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	clustertest.Exec(t, subscriber, "postgres", "CREATE TABLE t (i bigint PRIMARY KEY, v text)")
	s.subscribe(subscriber)
	s.set(s.A.Server, "logical_decoding_work_mem", "64kB")
	s.insert(s.A, 1, 100)
	waitRows(t, subscriber, 100)
	s.waitReplay(s.A, s.B, s.standby)
	if err := s.standby.Server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := flushed(t, s.from, s.standby.Name)
	clustertest.Exec(t, s.A.Server, "postgres", "INSERT INTO t SELECT g, repeat('streamed', 10) FROM generate_series(101, 3000) g")
	last := int64(3000)
	if s.options != "" {
		if !clustertest.Value[bool](t, s.from.Server, "postgres", "SELECT two_phase FROM pg_replication_slots WHERE slot_name = 'sub'") {
			t.Error("the slot is not two_phase: this test shows less than it should")
		}
		clustertest.Exec(t, s.A.Server, "postgres", "BEGIN; INSERT INTO t VALUES (3001, 'prepared'); PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'")
		last++
	}
	held := s.waitHeld(s.relay)
	if held.Position > limit || !slices.Contains(held.HoldBack.By, s.standby.Name) {
		t.Errorf("session %+v %+v, and the standby has flushed %v", held, held.HoldBack, limit)
	}
	if s.during != nil {
		s.during()
	}
	if c := confirmed(t, s.from, "sub"); c > limit {
		t.Errorf("the subscriber has confirmed %v, the standby has flushed %v", c, limit)
	}
	if n := clustertest.Value[int](t, subscriber, "postgres", "SELECT count(*)::int + (SELECT count(*)::int FROM pg_prepared_xacts) FROM t"); n != 100 {
		t.Errorf("the subscriber has %d rows and prepared transactions", n)
	}
	if err := s.standby.Server.Resume(); err != nil {
		t.Fatal(err)
	}
	waitRows(t, subscriber, last)
}

// subscribe makes the subscription. A slot on a standby is made when the primary
// has logged its running transactions.
func (s *heldSetup) subscribe(subscriber *cluster.Server) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- subscriber.Exec(s.t.Context(), "postgres",
			fmt.Sprintf("CREATE SUBSCRIPTION sub CONNECTION '%s' PUBLICATION p WITH (copy_data = false%s)", s.via, s.options))
	}()
	s.until("the subscription", func(context.Context) (bool, string) {
		select {
		case err := <-done:
			if err != nil {
				s.t.Fatal(err)
			}
			return true, ""
		default:
			clustertest.Exec(s.t, s.A.Server, "postgres", "SELECT pg_log_standby_snapshot()")
			return false, "not made yet"
		}
	})
}
