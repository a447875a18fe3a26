package decoder

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/slotcatalog"
	"github.com/slotferry/slotferry/protocol"
)

// pair is a primary, a standby that streams from it directly, and a helper that
// is told of the primary's slots by a source of this test's own: the relay has
// tests of its own, and the two are tested together elsewhere.
type pair struct {
	t       *testing.T
	primary *cluster.Server
	standby *cluster.Server
	source  *testSource
	dir     string // the helper's state directory
	*runningHelper
}

type runningHelper struct {
	helper *Helper
	log    *syncBuffer
	stop   func()
}

func newPair(t *testing.T, major int) *pair {
	t.Helper()
	return newPairWith(t, major, DefaultSettings())
}

func newPairWith(t *testing.T, major int, settings Settings) *pair {
	t.Helper()
	primary := clustertest.Primary(t, major, cluster.Config{Name: "a"})
	clustertest.Exec(t, primary, "postgres", "CREATE TABLE t (i int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR ALL TABLES")
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "b", SlotName: "b"})
	p := &pair{t: t, primary: primary, standby: standby, dir: t.TempDir()}
	p.source = startSource(t, primary)
	p.runningHelper = startHelper(t, standby, p.source, p.dir, settings)
	return p
}

func startHelper(t *testing.T, standby *cluster.Server, source *testSource, dir string, settings Settings, more ...func(*Config)) *runningHelper {
	t.Helper()
	buf := &syncBuffer{}
	cfg := Config{
		Standby: standby.Conninfo("postgres"), StateDir: dir, Settings: settings,
		Logger: zerolog.New(buf).With().Timestamp().Logger(), RequestSnapshot: source.snapshot,
	}
	for _, change := range more {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	source.to(h)
	return runHelper(t, h, buf)
}

func runHelper(t *testing.T, h *Helper, buf *syncBuffer) *runningHelper {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Run(ctx); err != nil {
			t.Errorf("helper ended: %v", err)
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("helper's log:\n%s", buf)
		}
	})
	return &runningHelper{helper: h, log: buf, stop: stop}
}

// slot waits until the helper, in a look it takes from now on, says this of a slot.
func (r *runningHelper) slot(t *testing.T, name string, state State, reason Reason) SlotStatusJSON {
	t.Helper()
	var found SlotStatusJSON
	asked := time.Now()
	poll.Require(t, 30*time.Second, fmt.Sprintf("slot %s to be %s %s", name, state, reason),
		func(context.Context) (bool, string) {
			st := r.helper.Status()
			if st.Time.Before(asked) {
				return false, "not looked at since"
			}
			for _, s := range st.Slots {
				if s.Name == name {
					found = s
					return s.State == state && s.Reason == reason, fmt.Sprintf("%+v, anchor %+v", s, st.Anchor)
				}
			}
			return false, fmt.Sprintf("not there; %s %s, anchor %+v", st.Reason, st.Detail, st.Anchor)
		})
	return found
}

// waitAnchor waits until there is an anchor that is protected.
func (r *runningHelper) waitAnchor(t *testing.T) {
	t.Helper()
	poll.Require(t, 30*time.Second, "a protected anchor", func(context.Context) (bool, string) {
		st := r.helper.Status()
		return st.Anchor.Proven, fmt.Sprintf("%+v, %s %s", st.Anchor, st.Reason, st.Detail)
	})
}

// waitKnown waits until the helper has heard of these upstream positions.
func (r *runningHelper) waitKnown(t *testing.T, want map[string]protocol.LSN) {
	t.Helper()
	poll.Require(t, 30*time.Second, "positions to be known", func(context.Context) (bool, string) {
		known := 0
		for _, s := range r.helper.Status().Slots {
			if lsn, ok := want[s.Name]; ok && s.Upstream == lsn {
				known++
			}
		}
		return known == len(want), fmt.Sprintf("%d of %d", known, len(want))
	})
}

// promote promotes the standby and waits for the helper's report.
func (p *pair) promote(t *testing.T) *PromotionReport {
	t.Helper()
	if err := p.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Require(t, 30*time.Second, "the promotion report", func(context.Context) (bool, string) {
		st := p.helper.Status()
		return st.Promotion != nil, fmt.Sprintf("%s %s", st.Role, st.Reason)
	})
	return p.helper.Status().Promotion
}

// gone waits until the standby has no slot of that name.
func gone(t *testing.T, s *cluster.Server, name string) {
	t.Helper()
	poll.Require(t, 30*time.Second, "slot "+name+" to be gone", func(context.Context) (bool, string) {
		n := clustertest.Value[int64](t, s, "postgres", "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1", name)
		return n == 0, ""
	})
}

// testSource reads the slots of a server and delivers them to helpers.
type testSource struct {
	server *cluster.Server
	mu     sync.Mutex
	sinks  []*Helper
	paused bool
	edit   func(*protocol.SlotMessage)
	nudge  chan struct{}
}

func startSource(t *testing.T, server *cluster.Server) *testSource {
	s := &testSource{server: server, nudge: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func (s *testSource) to(h *Helper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks = append(s.sinks, h)
}

func (s *testSource) snapshot() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

func (s *testSource) pause(v bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = v
}

func (s *testSource) run(ctx context.Context) {
	epoch := uint64(time.Now().UnixNano())
	for seq := uint64(1); ; seq++ {
		m, err := s.read(ctx)
		if err != nil {
			epoch++
		} else {
			m.Epoch, m.Sequence = epoch, seq
			s.mu.Lock()
			if s.edit != nil {
				s.edit(m)
			}
			for _, h := range s.sinks {
				if !s.paused {
					h.Deliver(m)
				}
			}
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.nudge:
			_ = s.server.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot()")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *testSource) read(ctx context.Context) (*protocol.SlotMessage, error) {
	conn, err := s.server.Connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	m := &protocol.SlotMessage{Interval: 1e6}
	var capture string
	var sysid, tli int64
	var start time.Time
	err = conn.QueryRow(ctx, `SELECT (pg_control_system()).system_identifier,
		('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8, pg_current_wal_lsn()::text,
		pg_postmaster_start_time(), current_setting('server_version_num')::int`).
		Scan(&sysid, &tli, &capture, &start, &m.ServerVersionNum)
	if err != nil {
		return nil, err
	}
	m.SystemIdentifier, m.TimelineID, m.PostmasterStartTime = uint64(sysid), uint32(tli), protocol.Micros(start)
	if m.CaptureLSN, err = protocol.ParseLSN(capture); err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT database::text, gid, transaction::text::int8, prepared FROM pg_prepared_xacts")
	if err != nil {
		return nil, err
	}
	m.PreparedTransactions, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x protocol.PreparedTransaction, err error) {
		var at time.Time
		var xid int64
		err = r.Scan(&x.Database, &x.GID, &xid, &at)
		x.Xid, x.Prepared = uint32(xid), protocol.Micros(at)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	rows, err = conn.Query(ctx, `SELECT DISTINCT ON (datname) datname::text, backend_xid::text::int8, pid, xact_start
		FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND datname IS NOT NULL ORDER BY datname, age(backend_xid) DESC`)
	if err != nil {
		return nil, err
	}
	m.OpenTransactions, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x protocol.OpenTransaction, err error) {
		var at time.Time
		var xid int64
		err = r.Scan(&x.Database, &xid, &x.PID, &at)
		x.Xid, x.XactStart = uint32(xid), protocol.Micros(at)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	slots, err := slotcatalog.Read(ctx, conn)
	for _, l := range slots {
		switch {
		case l.Physical:
			m.PhysicalSlots = append(m.PhysicalSlots, protocol.PhysicalSlot{Name: l.Name, Active: l.Active,
				Temporary: l.Temporary, RestartLSN: l.RestartLSN, Xmin: l.Xmin, CatalogXmin: l.CatalogXmin})
		case !l.Temporary:
			m.Slots = append(m.Slots, l.SlotState)
		}
	}
	return m, err
}

// syncBuffer is a log that goroutines share.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if os.Getenv("SLOTFERRY_TEST_LOG") != "" {
		os.Stderr.Write(p)
	}
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
