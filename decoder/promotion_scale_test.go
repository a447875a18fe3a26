package decoder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// The last advance at a promotion brings 50 slots, none of which has moved since it
// was made, to where their subscribers are by the last message. What comes twice is
// what that message missed, and no more (I-7).
func TestLastAdvanceOfFiftySlots(t *testing.T) {
	const slots, missed = 50, 5
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		settings := DefaultSettings()
		settings.AdvanceInterval = time.Hour // so that all is left for the promotion
		settings.RetainBudget = 1 << 60
		primary := clustertest.Primary(t, major, cluster.Config{Name: "a",
			Settings: map[string]string{"max_replication_slots": "60", "max_wal_senders": "20"}})
		clustertest.Exec(t, primary, "postgres", "CREATE TABLE t (i int PRIMARY KEY, v text)")
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "b", SlotName: "b"})
		p := &pair{t: t, primary: primary, standby: standby, dir: t.TempDir(), source: startSource(t, primary)}
		p.runningHelper = startHelper(t, standby, p.source, p.dir, settings)
		p.waitAnchor(t)
		clustertest.Exec(t, primary, "postgres", fmt.Sprintf(
			"SELECT pg_create_logical_replication_slot('s' || g, 'test_decoding') FROM generate_series(1, %d) g", slots))
		poll.Require(t, 60*time.Second, "all slots to be ready", func(context.Context) (bool, string) {
			ready := 0
			for _, s := range p.helper.Status().Slots {
				if s.State == StateReady {
					ready++
				}
			}
			return ready == slots, fmt.Sprint(ready)
		})
		advance := func(from, to int) {
			clustertest.Exec(t, primary, "postgres", "INSERT INTO t SELECT (SELECT count(*) FROM t) + g, 'row' FROM generate_series(1, 5000) g",
				fmt.Sprintf("SELECT pg_replication_slot_advance('s' || g, pg_current_wal_lsn()) FROM generate_series(%d, %d) g", from, to))
		}
		advance(1, slots)
		known := confirmedLSNs(t, primary)
		p.waitKnown(t, known)
		p.source.pause(true)
		advance(1, missed) // after the last message
		truth := confirmedLSNs(t, primary)
		if err := primary.WaitForStandby(t.Context(), standby); err != nil {
			t.Fatal(err)
		}
		if err := primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		before := confirmedLSNs(t, standby)
		if err := standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		poll.Require(t, 60*time.Second, "the promotion report", func(context.Context) (bool, string) {
			return p.helper.Status().Promotion != nil, ""
		})
		took := time.Since(began)
		report := p.helper.Status().Promotion

		var lag, twice, said protocol.LSN
		for _, s := range report.Slots {
			if want := min(known[s.Name], report.SwitchLSN); !s.Usable || s.Local < want {
				t.Errorf("%s is at %v, want %v: %+v", s.Name, s.Local, want, s)
			}
			if s.Local > truth[s.Name] {
				t.Errorf("%s is at %v past its subscriber at %v", s.Name, s.Local, truth[s.Name])
			}
			lag += known[s.Name] - before[s.Name]
			twice += truth[s.Name] - s.Local
			said += protocol.LSN(s.DuplicateBytes)
		}
		var unsaid protocol.LSN // what the last message could not say
		for name, lsn := range truth {
			unsaid += lsn - known[name]
		}
		t.Logf("%d slots advanced by %d kB of WAL each, %s after the server was promoted; %d B come twice, the last message missed %d B",
			slots, lag/slots>>10, took.Round(time.Millisecond), twice, unsaid)
		if len(report.Slots) != slots || twice != unsaid || said != 0 {
			t.Errorf("%d slots, %d B come twice, the last message missed %d B, the report says %d B", len(report.Slots), twice, unsaid, said)
		}
		if took > 20*time.Second { // a second on a machine with nothing else to do
			t.Errorf("took %s", took)
		}
	})
}

func confirmedLSNs(t *testing.T, s *cluster.Server) map[string]protocol.LSN {
	t.Helper()
	texts, err := cluster.QueryColumn[string](t.Context(), s, "postgres",
		"SELECT slot_name || ' ' || confirmed_flush_lsn FROM pg_replication_slots WHERE slot_type = 'logical' AND NOT temporary")
	if err != nil {
		t.Fatal(err)
	}
	lsns := map[string]protocol.LSN{}
	for _, text := range texts {
		var name, lsn string
		if _, err := fmt.Sscan(text, &name, &lsn); err != nil {
			t.Fatal(err)
		}
		if lsns[name], err = protocol.ParseLSN(lsn); err != nil {
			t.Fatal(err)
		}
	}
	return lsns
}
