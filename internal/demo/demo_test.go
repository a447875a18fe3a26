package main

import (
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/rig"
)

// play runs the whole demo with little traffic.
func play(t *testing.T, cfg config) result {
	t.Helper()
	var out strings.Builder
	var found result
	cfg.major, cfg.bin = 17, clustertest.Bin(t, 17)
	cfg.out, cfg.found, cfg.phase, cfg.race = &out, &found, time.Second, true
	if err := cfg.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
	if !found.good() || found.transactions == 0 || found.consumed == 0 {
		t.Error("it found nothing")
	}
	return found
}

func TestDemo(t *testing.T) {
	play(t, config{mode: rig.Inline})
}

// A subscriber that is ahead of the standby loses nothing of what the new primary
// commits, if the new primary's WAL goes past it first; what it has more is told
// apart.
func TestDemoWithSubscriberAhead(t *testing.T) {
	found := play(t, config{mode: rig.Sidecar, cutOff: true})
	if found.ahead == 0 || found.ackedGone == 0 {
		t.Errorf("the subscriber is %d transactions ahead, %d acknowledged ones are gone", found.ahead, found.ackedGone)
	}
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		pg, mode string
		want     int
	}{
		{"", "", 1}, {"16", "solo", 1}, {"all", "", 3}, {"18", "all", 3}, {"all", "all", 9}, {"15", "", 0}, {"17", "both", 0},
	} {
		runs, err := plan(test.pg, test.mode)
		if len(runs) != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("PG=%s MODE=%s gives %d runs, %v", test.pg, test.mode, len(runs), err)
		}
	}
	if runs, err := plan("", ""); err != nil || runs[0].major != 17 || runs[0].mode != rig.Inline {
		t.Errorf("without settings it runs %v, %v", runs, err)
	}
}
