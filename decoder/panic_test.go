package decoder

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// trap panics in the middle of a query that has its text in it.
type trap struct {
	text atomic.Pointer[string] // nil: no query
	once atomic.Bool            // and is open from then on

	mu    sync.Mutex
	conns []net.Conn // all that were made: one that is only forgotten would be closed by the garbage collector
}

func (p *trap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conn)
	return conn, err
}

func (p *trap) set(text string, once bool) {
	p.once.Store(once)
	p.text.Store(&text)
}

func (p *trap) frontend(r io.Reader, w io.Writer) *pgproto3.Frontend {
	return pgproto3.NewFrontend(r, trapped{w, p})
}

type trapped struct {
	io.Writer
	trap *trap
}

func (w trapped) Write(b []byte) (int, error) {
	if text := w.trap.text.Load(); text != nil && bytes.Contains(b, []byte(*text)) {
		if w.trap.once.Load() {
			w.trap.text.Store(nil)
		}
		panic("trap")
	}
	return w.Writer.Write(b)
}

// A step that panics is an error of its slot, a creation of the anchor that does is a
// failed one, and the last advance at a promotion is told in the report. Other slots go
// on, no session stays. Any of these was the end of the process.
func TestPanicIsTheTroubleOfOneSlot(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := &pair{t: t, dir: t.TempDir()}
		p.primary = clustertest.Primary(t, major, cluster.Config{Name: "a"})
		p.standby = clustertest.Standby(t, p.primary, cluster.StandbyConfig{Name: "b", SlotName: "b"})
		p.source = startSource(t, p.primary)
		buf := new(syncBuffer)
		h, err := New(Config{
			Standby: p.standby.Conninfo("postgres"), StateDir: p.dir, Logger: zerolog.New(buf), RequestSnapshot: p.source.snapshot,
		})
		if err != nil {
			t.Fatal(err)
		}
		var hole trap
		h.sessions.config.BuildFrontend, h.sessions.config.DialFunc = hole.frontend, hole.dial
		p.source.to(h)
		hole.set("CREATE_REPLICATION_SLOT", true)
		p.runningHelper = runHelper(t, h, buf)
		p.waitAnchor(t)
		p.sessions(t, "backend_type = 'walsender'", 1)
		if n := h.Status().Panics; n != 1 {
			t.Errorf("counted %d panics of the anchor, want 1", n)
		}

		clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE other")
		hole.set("bad", false)
		clustertest.Exec(t, p.primary, "other", "SELECT pg_create_logical_replication_slot('bad', 'test_decoding')")
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('good', 'test_decoding')")
		p.slot(t, "good", StateReady, ReasonNone)
		if s := p.slot(t, "bad", StatePending, ReasonError); !strings.Contains(s.Detail, "a bug in slotferry: trap") {
			t.Errorf("%+v", s)
		}
		poll.Require(t, 30*time.Second, "another try", func(context.Context) (bool, string) {
			st := h.Status()
			return st.Panics > 2, fmt.Sprintf("%d panics", st.Panics)
		})
		p.sessions(t, "datname = 'other'", 0)
		p.move(t, "good")
		p.follows(t, "good")
		for where, lines := range map[string]int{"anchor": 1, `slot \"bad\"`: 1} {
			if n := strings.Count(buf.String(), `"where":"`+where+`"`); n != lines {
				t.Errorf("%s is in the log %d times, want %d", where, n, lines)
			}
		}
		hole.text.Store(nil)
		p.slot(t, "bad", StateReady, ReasonNone)

		hole.set("bad", false)
		p.move(t, "bad")
		p.move(t, "good")
		p.waitKnown(t, map[string]protocol.LSN{"bad": p.at(t, p.primary, "bad"), "good": p.at(t, p.primary, "good")})
		good := p.at(t, p.primary, "good")
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.promote(t).Slots {
			if s.Name == "bad" && !strings.Contains(s.Error, "trap") || s.Name == "good" && (s.Error != "" || s.Local != good) {
				t.Errorf("%+v", s)
			}
		}
		p.stop()
		p.sessions(t, "true", 0)
		runtime.KeepAlive(&hole)
	})
}

// sessions waits until the helper has so many sessions on the standby.
func (p *pair) sessions(t *testing.T, where string, want int64) {
	t.Helper()
	poll.Require(t, 30*time.Second, fmt.Sprintf("%d sessions where %s", want, where), func(context.Context) (bool, string) {
		n := clustertest.Value[int64](t, p.standby, "postgres",
			"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND "+where, applicationName)
		return n == want, fmt.Sprintf("%d", n)
	})
}

// move moves a slot of the primary.
func (p *pair) move(t *testing.T, slot string) {
	t.Helper()
	database := clustertest.Value[string](t, p.primary, "postgres", "SELECT database::text FROM pg_replication_slots WHERE slot_name = $1", slot)
	clustertest.Exec(t, p.primary, database, "SELECT pg_logical_emit_message(true, 'x', 'x')",
		fmt.Sprintf("SELECT pg_replication_slot_advance('%s', pg_current_wal_flush_lsn())", slot))
}

func (p *pair) at(t *testing.T, s *cluster.Server, slot string) protocol.LSN {
	t.Helper()
	lsn, err := protocol.ParseLSN(slotOn(t, s, slot))
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

// follows waits until a slot is on the standby where it is on the primary.
func (p *pair) follows(t *testing.T, slot string) {
	t.Helper()
	poll.Require(t, 30*time.Second, "the slot to follow", func(context.Context) (bool, string) {
		want, got := slotOn(t, p.primary, slot), slotOn(t, p.standby, slot)
		return got == want, fmt.Sprintf("at %s, want %s", got, want)
	})
}

// A session of the feed that panics is closed, and another one brings the message.
func TestPanicOfTheFeedEndsItsSession(t *testing.T) {
	var up atomic.Int32
	h, log, ended := feedFromRelay(t, slotFrames(t, &protocol.SlotMessage{SystemIdentifier: 7, Epoch: 1, Sequence: 1}), func(f *Feed) {
		f.cfg.Logger = f.cfg.Logger.Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, msg string) {
			if msg == "feed from the relay is up" && up.Add(1) <= 2 {
				panic("feed")
			}
		}))
	})
	for range 2 {
		<-ended
	}
	poll.Require(t, time.Minute, "the message", func(context.Context) (bool, string) {
		return h.inbox.get().Message != nil, log.String()
	})
	onePanic(t, h, log, 2)
}

// Reports that cannot be had end the session that they were for, not the process.
func TestPanicOfTheFeedsReportsEndsItsSession(t *testing.T) {
	h, log, ended := feedFromRelay(t, nil, func(f *Feed) { f.cfg.Helper.report.Store(nil) })
	for range 2 {
		<-ended
	}
	onePanic(t, h, log, 2)
}

// onePanic checks that a panic was counted so often at least, and logged once.
func onePanic(t *testing.T, h *Helper, log *syncBuffer, least uint64) {
	t.Helper()
	if n := h.Status().Panics; n < least {
		t.Errorf("counted %d panics, want %d", n, least)
	}
	if n := strings.Count(log.String(), "panic contained"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log)
	}
}
