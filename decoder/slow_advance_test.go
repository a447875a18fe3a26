package decoder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// Each call of an advance begins at restart_lsn, so one that was cut off has to be
// given more time at the next try, and the server a rest between the two.
func TestAdvanceThatNeedsMoreTimeArrives(t *testing.T) {
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		settings := DefaultSettings()
		settings.AdvanceDeadline, settings.AdvanceInterval, settings.RetainBudget = 10*time.Millisecond, 100*time.Millisecond, 1<<20
		settings.AnchorInterval = time.Hour
		p := newPairWith(t, major, settings)
		p.waitAnchor(t)
		clustertest.Exec(t, p.primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		p.slot(t, "s", StateReady, ReasonNone)
		if err := p.standby.SetConf(t.Context(), "recovery_min_apply_delay", "1h"); err != nil { // so that all of it comes at once
			t.Fatal(err)
		}
		clustertest.Exec(t, p.primary, "postgres", "CREATE TABLE big (n int, pad text); ALTER TABLE big ALTER pad SET STORAGE plain",
			"INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, 120000) g",
			"SELECT pg_replication_slot_advance('s', pg_current_wal_flush_lsn())")
		setConf(t, p.standby, "recovery_min_apply_delay", "0")
		want := slotOn(t, p.primary, "s")
		poll.Require(t, 60*time.Second, "the slot to arrive", func(context.Context) (bool, string) {
			l := slotOn(t, p.standby, "s")
			return l == want, fmt.Sprintf("%s, want %s", l, want)
		})
		tries := strings.Count(p.log.String(), errTooSlow.Error())
		for _, c := range p.helper.Status().Steps {
			if c.Step == string(StepAdvance) && c.Outcome == "failed" {
				if tries == 0 || c.Count < 2 || c.Count > 12 {
					t.Errorf("%d advances failed, %d lines say why", c.Count, tries)
				}
				return
			}
		}
		t.Error("no advance was cut off: the test has not seen what it is about")
	})
}

// The pause grows with the work that was lost, and never is nothing.
func TestSlowAdvanceRestsAsLongAsItTook(t *testing.T) {
	h, err := New(Config{Standby: "host=localhost", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	slow := fmt.Errorf("advance: %w", errTooSlow)
	patience := h.cfg.Settings.AdvanceDeadline
	for range 12 {
		h.busy["s"] = stepRun{cancel: func() {}}
		h.settle(result{step: Step{Kind: StepAdvance, Slot: "s"}, took: patience, err: slow})
		track := h.tracks["s"]
		if rest := time.Until(track.RetryAt); rest < patience-time.Minute {
			t.Errorf("after %s of work it rests for %s", patience, rest)
		}
		if want := min(2*patience, maxPatience); h.patience(track) != want {
			t.Errorf("after %s it is given %s, want %s", patience, h.patience(track), want)
		}
		patience = h.patience(track)
	}
	h.busy["s"] = stepRun{cancel: func() {}}
	h.settle(result{step: Step{Kind: StepAdvance, Slot: "s"}, err: errors.New("another")})
	if h.patience(h.tracks["s"]) != patience {
		t.Error("an error of another kind took the time back")
	}
	h.busy["s"] = stepRun{cancel: func() {}}
	h.settle(result{step: Step{Kind: StepAdvance, Slot: "s"}})
	if got := h.patience(h.tracks["s"]); got != h.cfg.Settings.AdvanceDeadline {
		t.Errorf("one that arrived leaves %s for the next", got)
	}
}

func slotOn(t *testing.T, s *cluster.Server, slot string) string {
	t.Helper()
	return clustertest.Value[string](t, s, "postgres",
		"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", slot)
}
