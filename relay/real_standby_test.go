package relay_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// walTraces returns what a slot message that reached a walreceiver leaves in
// pg_wal: segment 0, and segments closed before their time.
func walTraces(t *testing.T, s *cluster.Server) []string {
	t.Helper()
	return append(segmentZero(t, s), walFiles(t, s, "archive_status/*")...)
}

// segmentZero returns the file that only a message at 0/0 can have made.
func segmentZero(t *testing.T, s *cluster.Server) []string {
	t.Helper()
	return walFiles(t, s, "*0000000000000000")
}

func walFiles(t *testing.T, s *cluster.Server, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(s.DataDir(), "pg_wal", pattern))
	must(t, err)
	for i, path := range list {
		list[i] = filepath.Base(path)
	}
	return list
}

var unclean = regexp.MustCompile(`(?m)^.*(ERROR|FATAL|PANIC|WARNING|invalid|incorrect).*$`)

// traffic writes WAL of many sizes.
func traffic(t *testing.T, s *cluster.Server, rounds int) {
	t.Helper()
	clustertest.Exec(t, s, "postgres", "CREATE TABLE IF NOT EXISTS traffic (n int, pad text)")
	for i := range rounds {
		clustertest.Exec(t, s, "postgres", fmt.Sprintf(
			"INSERT INTO traffic SELECT i, repeat('x', i %% 700) FROM generate_series(1, %d) i", 1+i*97%2000))
	}
}

// A standby that knows nothing of slotferry sits behind a relay that splices
// for those who ask: nothing of that reaches it (I-13).
func TestStockStandbyBehindSplicingRelay(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		source := startSource(t, primary, relay.SlotSourceConfig{PollInterval: 10 * time.Millisecond, Heartbeat: 10 * time.Millisecond})
		r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: r.addr})
		traffic(t, primary, 20)
		must(t, primary.WaitForStandby(t.Context(), standby))
		must(t, primary.WaitForStreaming(t.Context(), "standby"))

		if found := walTraces(t, standby); len(found) > 0 {
			t.Errorf("traces of slot messages in pg_wal: %q", found)
		}
		if lines := unclean.FindAllString(standby.Log(), -1); len(lines) > 0 {
			t.Errorf("log of the standby: %q", lines)
		}
		st := r.Status()
		if len(st.Sessions) != 1 || st.Sessions[0].OptedIn || st.Sessions[0].Spliced != 0 ||
			st.Sessions[0].Kind != relay.KindPhysical || st.Sessions[0].State != "streaming" {
			t.Errorf("sessions: %+v", st.Sessions)
		}
		if source.Status().Sequence < 10 {
			t.Errorf("the slot source has sent %d messages only", source.Status().Sequence)
		}
	})
}

// twoHops is a primary, a relay, a helper's relay and a standby behind both.
type twoHops struct {
	primary, standby *cluster.Server
	source           *relay.SlotSource
	splice, strip    *runningRelay
	sink             *sink
	reports          *reports
}

func startTwoHops(t *testing.T, major int, heartbeat time.Duration) *twoHops {
	t.Helper()
	h := &twoHops{sink: new(sink), reports: newReports()}
	h.primary = clustertest.Primary(t, major, cluster.Config{})
	h.source = startSource(t, h.primary, relay.SlotSourceConfig{PollInterval: heartbeat, Heartbeat: heartbeat})
	h.splice = startRelay(t, relay.Config{
		Upstream: h.primary.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: h.source,
	})
	h.strip = startRelay(t, relay.Config{
		Upstream: "host=127.0.0.1 port=" + strings.TrimPrefix(h.splice.addr, "127.0.0.1:"),
		Mode:     relay.ModeStrip, Sink: h.sink, Reports: h.reports, ReportInterval: 200 * time.Millisecond,
	})
	h.standby = clustertest.Standby(t, h.primary, cluster.StandbyConfig{SlotName: "standby", Via: h.strip.addr})
	return h
}

// Slot messages every 10 ms between two relays: the standby sees pure WAL, the
// sink sees the slots, reports and snapshot requests come back (I-13).
func TestTwoHops(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		h := startTwoHops(t, major, 10*time.Millisecond)
		clustertest.Exec(t, h.primary, "postgres",
			"SELECT pg_create_logical_replication_slot('orders', 'test_decoding')",
			"SELECT pg_create_logical_replication_slot('pg_16387_sync_16385_7000000000000000000', 'pgoutput')")
		traffic(t, h.primary, 20)
		must(t, h.primary.WaitForStandby(t.Context(), h.standby))

		m := h.sink.wait(t, "a slot and the standby's slot in use", func(m *protocol.SlotMessage) bool {
			return len(m.Slots) == 1 && len(m.PhysicalSlots) == 1 && m.PhysicalSlots[0].Active
		})
		checkMessage(t, h.primary, m)

		h.reports.set(&protocol.HelperReport{Standby: "standby", SnapshotRequest: 1,
			Slots: []protocol.SlotReport{{Name: "orders", State: "pending", Reason: "new"}}})
		require(t, "report at the relay and a snapshot", func(context.Context) (bool, string) {
			st := h.splice.Status()
			ok := len(st.Sessions) == 1 && st.Sessions[0].HelperReport != nil && st.SlotSource.Snapshots == 1
			return ok, fmt.Sprintf("%+v", st)
		})
		require(t, "many messages", func(context.Context) (bool, string) {
			_, n := h.sink.newest()
			return n > 50, fmt.Sprint(n)
		})
		traffic(t, h.primary, 5)
		must(t, h.primary.WaitForStandby(t.Context(), h.standby))
		if found := walTraces(t, h.standby); len(found) > 0 {
			t.Errorf("traces of slot messages in pg_wal: %q", found)
		}
		if lines := unclean.FindAllString(h.standby.Log(), -1); len(lines) > 0 {
			t.Errorf("log of the standby: %q", lines)
		}
		// Past the helper straight to the relay: no message goes there.
		must(t, h.standby.SetConf(t.Context(), "primary_conninfo", via(h.splice, "application_name=bypass")))
		must(t, h.primary.WaitForStreaming(t.Context(), "bypass"))
		traffic(t, h.primary, 5)
		must(t, h.primary.WaitForStandby(t.Context(), h.standby))
		if found := walTraces(t, h.standby); len(found) > 0 {
			t.Errorf("traces of slot messages in pg_wal without the helper: %q", found)
		}
		if log := h.primary.Log(); strings.Contains(log, "slotferry=") || strings.Contains(log, "_pq_") {
			t.Error("the primary has seen the marker")
		}
		if n := clustertest.Value[int](t, h.primary, "postgres",
			"SELECT count(*)::int FROM pg_stat_replication"); n != 1 {
			t.Errorf("%d rows in pg_stat_replication, want the standby's alone", n)
		}
	})
}

func checkMessage(t *testing.T, primary *cluster.Server, m *protocol.SlotMessage) {
	t.Helper()
	s := m.Slots[0]
	if s.Name != "orders" || s.Plugin != "test_decoding" || s.Database != "postgres" || s.RestartLSN == 0 ||
		s.ConfirmedFlushLSN == 0 || s.CatalogXmin == 0 || s.Active || s.WALStatus != "reserved" {
		t.Errorf("slot state %+v", s)
	}
	id := clustertest.Value[int64](t, primary, "postgres", "SELECT system_identifier FROM pg_control_system()")
	if m.SystemIdentifier != uint64(id) || m.TimelineID != 1 || m.InRecovery || m.CaptureLSN == 0 || m.Epoch == 0 ||
		int(m.ServerVersionNum)/10000 != primary.Major() || m.Interval != 10000 {
		t.Errorf("slot message %+v", m)
	}
	if d := time.Since(protocol.Time(m.CaptureTime)); d < 0 || d > time.Minute {
		t.Errorf("captured %s ago", d)
	}
	if d := time.Since(protocol.Time(m.PostmasterStartTime)); d < 0 || d > 10*time.Minute {
		t.Errorf("postmaster started %s ago", d)
	}
}

// The helper's relay finds a server where it was told a relay would be: WAL
// flows, the state says so.
func TestStripWithoutRelayUpstream(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		strip := startRelay(t, relay.Config{
			Upstream: primary.Conninfo("postgres"), Mode: relay.ModeStrip, Sink: new(sink), Reports: newReports(),
		})
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: strip.addr})
		traffic(t, primary, 3)
		must(t, primary.WaitForStandby(t.Context(), standby))
		st := strip.Status()
		if !st.NoRelay || len(st.Sessions) != 1 || !st.Sessions[0].NoRelay || st.Sessions[0].OptedIn {
			t.Errorf("status %+v", st)
		}
		if n := strings.Count(strip.log.String(), "no relay at this address"); n != 1 {
			t.Errorf("logged %d times that there is no relay, want once", n)
		}
		if lines := unclean.FindAllString(standby.Log(), -1); len(lines) > 0 {
			t.Errorf("log of the standby: %q", lines)
		}
	})
}

// A shutdown of the relay is a sentence in the standby's log, and the standby
// comes again (DESIGN 5).
func TestShutdownTellsWalreceiver(t *testing.T) {
	primary := clustertest.Primary(t, 17, cluster.Config{})
	source := startSource(t, primary, relay.SlotSourceConfig{})
	cfg := relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source}
	r := startRelay(t, cfg)
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: r.addr})
	must(t, primary.WaitForStreaming(t.Context(), "standby"))
	r.stop()
	must(t, standby.WaitLogContains(t.Context(), "terminating connection because slotferry is shutting down"))
	cfg.Listen = []string{r.addr}
	startRelay(t, cfg)
	traffic(t, primary, 1)
	must(t, primary.WaitForStandby(t.Context(), standby))
}

// The connection between relay and primary dies without a word: the
// walreceiver's own timeout ends its side, and it gets through again as soon
// as there is a way.
func TestUpstreamVanishes(t *testing.T) {
	ctx := t.Context()
	primary := clustertest.Primary(t, 17, cluster.Config{})
	proxy, err := faultproxy.New(primary.Addr())
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	source := startSource(t, primary, relay.SlotSourceConfig{})
	r := startRelay(t, relay.Config{
		Upstream: fmt.Sprintf("host=127.0.0.1 port=%d", proxy.Port()), Mode: relay.ModeSplice, Slots: source,
		DrainTimeout: 300 * time.Millisecond,
	})
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: r.addr,
		Settings: map[string]string{"wal_receiver_timeout": "1s", "wal_sender_timeout": "1s"}})
	must(t, primary.WaitForStreaming(ctx, "standby"))
	mark := standby.LogSize()
	proxy.Stall(faultproxy.Up)
	proxy.Stall(faultproxy.Down)
	must(t, standby.WaitLogSince(ctx, mark, "terminating walreceiver due to timeout"))
	proxy.Resume(faultproxy.Up)
	proxy.Resume(faultproxy.Down)
	proxy.Cut()
	traffic(t, primary, 2)
	must(t, primary.WaitForStandby(ctx, standby))
	require(t, "one session", func(context.Context) (bool, string) {
		st := r.Status()
		return len(st.Sessions) == 1, fmt.Sprintf("%+v", st)
	})
}
