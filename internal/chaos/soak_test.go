package chaos

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/rig"
)

// soakCycles is how many cycles every test run makes. SLOTFERRY_TEST_SOAK, a
// duration, asks for more.
const soakCycles = 6

// Cycles of all that makes sessions, slots and connections end and be made again,
// under traffic: nothing grows in relay, helper, servers and state directory. The
// processes of slotferry are the same from the beginning to the end.
func TestSoak(t *testing.T) {
	t.Parallel()
	var long time.Duration
	if text := os.Getenv("SLOTFERRY_TEST_SOAK"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatalf("read SLOTFERRY_TEST_SOAK %q: want a duration such as 1h", text)
		}
	}
	major := slices.Max(clustertest.Majors(t))
	cfg := roundConfig(t, major, build(t, "slotferry", nil))
	cfg.Say = nil
	if long > 0 {
		cfg.Pace = 200 * time.Millisecond // the test remembers all that is written
	}
	w := newWorld(Schedule{Major: major, Mode: rig.Inline, Consumers: []Consumer{
		{Name: "audit", Database: databases[0], Plugin: testDecoding},
		{Name: "orders", Database: databases[0], Plugin: pgoutput, Streaming: "on"},
	}}, cfg)
	s := &scene{w, t}
	t.Cleanup(func() { s.must(w.close()) })
	s.must(w.build(t.Context()))
	helper := w.standby.Helper.PID()
	var samples []levels
	began := time.Now()
	for cycle := 0; cycle < soakCycles || time.Since(began) < long; cycle++ {
		s.soakCycle(cycle)
		sample, err := w.measure(t.Context())
		s.must(err)
		samples = append(samples, sample)
	}
	t.Logf("%d cycles in %s: first %v, last %v", len(samples), time.Since(began).Round(time.Second), samples[0], samples[len(samples)-1])
	for _, what := range grown(samples) {
		t.Error(what)
	}
	if w.standby.Helper.PID() != helper || !w.standby.Helper.Running() {
		t.Error("the helper is not the one that it was")
	}
	s.must(w.gather(t.Context()))
	if v := Judge(&w.evidence); !v.Good() {
		t.Error(v.String())
	}
}

// soakCycle breaks every connection there is, lets a slot be born and go, and
// waits until all is well.
func (s *scene) soakCycle(cycle int) {
	s.t.Helper()
	ctx := s.t.Context()
	for _, a := range []Act{
		{Kind: EndSessions}, {Kind: EndReceiver}, {Kind: Cut, On: string(rig.LegRelay)}, {Kind: Cut, On: string(rig.LegUpstream)},
		{Kind: Cut, On: string(rig.LegStandby)}, {Kind: Cut, On: string(LegSubscriber)},
	} {
		// The walreceiver and the sessions may just be on their way back.
		s.must(retry(ctx, func() error { return s.perform(ctx, a) }))
	}
	if cycle%8 == 7 {
		s.must(s.standby.Server.Restart(ctx, cluster.Fast))
	}
	name := fmt.Sprintf("born_%d", cycle)
	s.must(s.bear(ctx, databases[0], name))
	s.must(s.ready(ctx))
	s.must(s.dropBorn(ctx, name))
	s.until(name+" to be gone", func(*decoder.Status) (bool, string) {
		n, err := cluster.QueryValue[int64](ctx, s.standby.Server, databases[0],
			"SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 OR temporary AND NOT active", name)
		return err == nil && n == 0, fmt.Sprint(n, err)
	})
}

// What grows is found, and what only moves is not.
func TestGrown(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []int64
		of     string
		want   bool
	}{
		{"flat", []int64{9, 9, 9, 9, 9, 9, 9, 9, 9}, "goroutines", false},
		{"one more each cycle", []int64{9, 10, 11, 12, 13, 14, 15, 16, 17}, "goroutines", true},
		{"up and down", []int64{9, 12, 9, 14, 9, 12, 9, 14, 9}, "goroutines", false},
		{"a step that stays", []int64{9, 9, 9, 13, 13, 13, 13, 13, 13}, "goroutines", true},
		{"memory moves", []int64{60_000, 70_000, 65_000, 72_000, 70_000, 71_000, 80_000, 79_000, 81_000}, memory, false},
		{"memory grows", []int64{60_000, 70_000, 80_000, 90_000, 100_000, 110_000, 120_000, 130_000, 140_000}, memory, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var samples []levels
			for _, v := range test.values {
				samples = append(samples, levels{test.of: v})
			}
			if got := grown(samples); (len(got) > 0) != test.want {
				t.Errorf("grown is %q, want %t", got, test.want)
			}
		})
	}
}
