package decoder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/internal/poll"
)

// crashedUpstream is a primary that was killed before the standby's catalog_xmin was
// on its disk, and is back without it: the standby cannot reach it yet. Slot s of
// the standby lags behind the upstream's, which is past these statements.
type crashedUpstream struct {
	*pair
	proxy  *faultproxy.Proxy // between the walreceiver and the primary
	replay func()            // lets replay go on
}

func newCrashedUpstream(t *testing.T, major int, statements ...string) *crashedUpstream {
	t.Helper()
	primary := clustertest.Primary(t, major, cluster.Config{Name: "a", Settings: map[string]string{
		"checkpoint_timeout": "1h", "autovacuum": "off",
	}})
	proxy, err := faultproxy.New(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "b", SlotName: "b", Via: proxy.Addr(),
		Settings: map[string]string{
			"wal_retrieve_retry_interval": "100ms", "max_standby_streaming_delay": "-1",
		}})
	c := &crashedUpstream{pair: &pair{t: t, primary: primary, standby: standby, dir: t.TempDir()}, proxy: proxy}
	c.source = startSource(t, primary)
	clustertest.Exec(t, primary, "postgres", "CREATE TABLE t (i int)", "CREATE TABLE held ()")
	settings := DefaultSettings()
	settings.AdvanceInterval, settings.AnchorInterval = time.Hour, time.Hour
	c.runningHelper = startHelper(t, standby, c.source, c.dir, settings)
	c.waitAnchor(t)
	clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
	c.slot(t, "s", StateReady, ReasonNone)
	needed := clustertest.Value[string](t, standby, "postgres", "SELECT catalog_xmin FROM pg_replication_slots WHERE slot_name = 's'")
	poll.Require(t, 30*time.Second, "the upstream's slot to move on", func(ctx context.Context) (bool, string) {
		clustertest.Exec(t, primary, "postgres", append(statements,
			"SELECT pg_log_standby_snapshot()", "SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)")...)
		moved := clustertest.Value[int64](t, primary, "postgres",
			"SELECT catalog_xmin::text::int8 - $1::int8 FROM pg_replication_slots WHERE slot_name = 's'", needed)
		return moved > 2, fmt.Sprint(moved)
	})
	if err := primary.WaitForStandby(t.Context(), standby); err != nil {
		t.Fatal(err)
	}
	if now := clustertest.Value[string](t, standby, "postgres", "SELECT catalog_xmin FROM pg_replication_slots WHERE slot_name = 's'"); now != needed {
		t.Fatalf("the standby's slot has moved from catalog_xmin %s to %s", needed, now)
	}
	proxy.Blackhole(true)
	proxy.Cut()
	clustertest.Exec(t, primary, "postgres", "BEGIN; LOCK TABLE held; COMMIT") // what connect stops replay at
	if err := primary.Kill9(); err != nil {
		t.Fatal(err)
	}
	if err := primary.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := c.upstreamHolds(t); held != "" {
		t.Fatalf("the upstream holds catalog_xmin %s after its crash", held)
	}
	return c
}

// upstreamHolds is the catalog_xmin of the standby's physical slot, "" for none.
func (c *crashedUpstream) upstreamHolds(t *testing.T) string {
	t.Helper()
	return clustertest.Value[string](t, c.primary, "postgres",
		"SELECT coalesce(catalog_xmin::text, '') FROM pg_replication_slots WHERE slot_name = 'b'")
}

// connect lets the standby stream again, until the upstream holds its catalog_xmin
// and it has received all WAL. It replays nothing that was written since it was cut
// off: a lock holds that up. (Paused, it would not begin to stream either.)
func (c *crashedUpstream) connect(t *testing.T) {
	t.Helper()
	conn, err := c.standby.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	c.replay = func() { conn.Close(context.WithoutCancel(t.Context())) }
	t.Cleanup(c.replay)
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE held IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	c.proxy.Blackhole(false)
	c.proxy.Cut()
	poll.Require(t, 30*time.Second, "the feedback to be back", func(context.Context) (bool, string) {
		return c.upstreamHolds(t) != "", ""
	})
	end, err := c.primary.CurrentLSN(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	poll.Require(t, 30*time.Second, "all WAL to be received", func(context.Context) (bool, string) {
		return clustertest.Value[bool](t, c.standby, "postgres",
			"SELECT coalesce(pg_last_wal_receive_lsn() >= $1::text::pg_lsn, false)", end.String()), ""
	})
}

// I-3: the upstream crashed and forgot what the standby needs, until the next feedback.
// No slot is ready before the standby has replayed what was vacuumed meanwhile: it may
// be lost to that. One that is not is kept, whether the upstream is there by then
// or not.
func TestUpstreamForgetsCatalogXminInACrash(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		t.Run("a slot is lost to what was vacuumed, and was not called ready", func(t *testing.T) {
			c := newCrashedUpstream(t, major, "CREATE TABLE gone (i int)", "ALTER TABLE gone ADD COLUMN j int", "DROP TABLE gone")
			clustertest.Exec(t, c.primary, "postgres", "VACUUM pg_class", "VACUUM pg_attribute")
			c.connect(t)
			c.waitNotReplayed(t)
			c.loseUpstream(t)
			reason := ReasonRowsRemoved
			if major == 16 {
				reason = ReasonConflicting
			}
			if s := c.promote(t).Slots; len(s) != 1 || s[0].Usable || s[0].Reason != reason {
				t.Errorf("after the promotion: %+v, want a slot that is not usable: %s", s, reason)
			}
		})
		t.Run("a slot that lost nothing is ready again, and not made again", func(t *testing.T) {
			c := newCrashedUpstream(t, major, "INSERT INTO t VALUES (0)")
			c.connect(t)
			c.waitNotReplayed(t)
			c.replay()
			c.slot(t, "s", StateReady, ReasonNone)
			if strings.Contains(c.log.String(), "slot dropped on the standby") {
				t.Error("the slot was made again")
			}
		})
		t.Run("a slot that lost nothing is kept by a promotion", func(t *testing.T) {
			c := newCrashedUpstream(t, major, "INSERT INTO t VALUES (0)")
			c.connect(t)
			c.waitNotReplayed(t)
			c.loseUpstream(t)
			if s := c.promote(t).Slots; len(s) != 1 || !s[0].Usable || s[0].Error != "" || s[0].Local != s[0].Last {
				t.Errorf("after the promotion: %+v, want a slot that is usable, and where the upstream's was", s)
			}
			clustertest.Exec(t, c.standby, "postgres", "INSERT INTO t VALUES (1)")
			if n := clustertest.Value[int64](t, c.standby, "postgres",
				"SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data LIKE 'table public.t: INSERT: %:1'"); n != 1 {
				t.Errorf("the slot gives %d rows, want 1", n)
			}
		})
	})
}

// waitNotReplayed waits until the helper says of the slot what has to be replayed.
func (c *crashedUpstream) waitNotReplayed(t *testing.T) {
	t.Helper()
	poll.Require(t, 30*time.Second, "the helper to say how far it has to be replayed", func(context.Context) (bool, string) {
		s := c.pair.slot(t, "s", StatePending, ReasonWALNotReplayed)
		return strings.Contains(s.Detail, "needed"), fmt.Sprintf("%+v", s)
	})
}

// loseUpstream kills the primary for good. The standby replays all it has.
func (c *crashedUpstream) loseUpstream(t *testing.T) {
	t.Helper()
	if err := c.primary.Kill9(); err != nil {
		t.Fatal(err)
	}
	c.pair.slot(t, "s", StatePending, ReasonNotStreaming)
	c.replay()
}
