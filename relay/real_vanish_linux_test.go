package relay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/relay"
)

// quickly is what a conninfo asks of the kernel: a peer that rests and is gone is
// noticed after some 3 s, one that is spoken to after 2 s.
const quickly = " keepalives_idle=1 keepalives_interval=1 keepalives_count=2 tcp_user_timeout=2000"

func startFaultProxy(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.New(target)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// Packets are dropped on either leg, with PostgreSQL's own timeouts off on both
// sides: keepalives and tcp_user_timeout of the upstream conninfo end both legs of
// that session, the standby comes again by itself, and the session beside it does not
// notice.
func TestPeerVanishes(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		primary := clustertest.Primary(t, major, cluster.Config{Settings: map[string]string{
			"wal_sender_timeout": "0", "wal_receiver_timeout": "0", "wal_retrieve_retry_interval": "100ms",
		}})
		above := startFaultProxy(t, primary.Addr())
		r := startRelay(t, relay.Config{Mode: relay.ModeSplice, Upstream: fmt.Sprintf("host=127.0.0.1 port=%d", above.Port()) + quickly})
		below := startFaultProxy(t, r.addr)
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: below.Addr()})
		other := startRelay(t, relay.Config{Mode: relay.ModeSplice, Upstream: primary.Conninfo("postgres") + quickly})
		beside := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "beside", SlotName: "beside", Via: other.addr})
		walsender := func(name string) int {
			return clustertest.Value[int](t, primary, "postgres",
				"SELECT coalesce(max(pid), 0) FROM pg_stat_replication WHERE application_name = '"+name+"' AND state = 'streaming'")
		}
		must(t, primary.WaitForStreaming(ctx, "standby"))
		must(t, primary.WaitForStreaming(ctx, "beside"))
		undisturbed := walsender("beside")
		for _, leg := range []struct {
			name  string
			proxy *faultproxy.Proxy
			speak bool // WAL is on its way when it happens
		}{
			{"upstream, at rest", above, false}, {"downstream, at rest", below, false},
			{"upstream, under load", above, true}, {"downstream, under load", below, true},
		} {
			before, session := walsender("standby"), newestSession(r)
			if leg.speak {
				leg.proxy.Stall(faultproxy.Down) // there is something that is not acknowledged
				traffic(t, primary, 3)
			}
			must(t, leg.proxy.Vanish())
			leg.proxy.Resume(faultproxy.Down)
			require(t, leg.name+": the session to end", func(context.Context) (bool, string) {
				st := r.Status()
				for _, s := range st.Sessions {
					if s.ID <= session {
						return false, fmt.Sprintf("%+v", s)
					}
				}
				return true, ""
			})
			leg.proxy.Cut() // for whom has not noticed yet: this test turned their timeouts off
			traffic(t, primary, 1)
			must(t, primary.WaitForStandby(ctx, standby))
			if after := walsender("standby"); after == before || after == 0 {
				t.Errorf("%s: walsender is %d, was %d", leg.name, after, before)
			}
		}
		must(t, primary.WaitForStandby(ctx, beside))
		if now := walsender("beside"); now != undisturbed || other.Status().Accepted != 1 {
			t.Errorf("the session beside it has walsender %d, had %d; %d connections", now, undisturbed, other.Status().Accepted)
		}
		if log := r.log.String(); !strings.Contains(log, "connection timed out") {
			t.Errorf("the log does not say why sessions ended:\n%s", log)
		}
	})
}

func newestSession(r *runningRelay) (id uint64) {
	for _, s := range r.Status().Sessions {
		id = max(id, s.ID)
	}
	return id
}

// The upstream's address accepts and never answers: connect_timeout ends that, with
// a sentence at the client, and when the server is back sessions work at once.
func TestUpstreamIsABlackHole(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		proxy := startFaultProxy(t, primary.Addr())
		upstream := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres connect_timeout=1 sslmode=disable", proxy.Port())
		source := startSource(t, primary, relay.SlotSourceConfig{Conninfo: upstream})
		r := startRelay(t, relay.Config{Mode: relay.ModeSplice, Upstream: upstream, Slots: source})
		proxy.Blackhole(true)
		proxy.Cut()
		for range 2 {
			if _, err := login(t.Context(), via(r, "")); err == nil || !strings.Contains(explain(err), "no answer to the startup packet within 1s") {
				t.Errorf("got %v", err)
			}
		}
		require(t, "no session, and a slot source that says why", func(context.Context) (bool, string) {
			st := r.Status()
			return len(st.Sessions) == 0 && !st.SlotSource.Connected && st.SlotSource.Error != "", fmt.Sprintf("%+v", st)
		})
		if n := strings.Count(r.log.String(), "upstream cannot be reached"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		proxy.Blackhole(false)
		proxy.Cut()
		if _, err := login(t.Context(), via(r, "")); err != nil {
			t.Error(err)
		}
		require(t, "the slot source to be back", func(context.Context) (bool, string) {
			st := source.Status()
			return st.Connected, fmt.Sprintf("%+v", st)
		})
	})
}
