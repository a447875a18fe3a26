package decoder

import (
	"testing"
	"time"
)

// An address of the standby that fails over leads to the upstream itself one day,
// which is a primary and has slots of the same names. Those are not the helper's.
func TestNewTimeline(t *testing.T) {
	rows := map[string]LedgerRow{"s": {TimelineID: 2}, "old": {TimelineID: 9, Released: true}}
	for _, tc := range []struct {
		timeline, received uint32
		tracks             map[string]Track
		want               bool
	}{
		{3, 0, nil, true},
		{2, 0, nil, false}, // the upstream
		{1, 0, nil, false},
		{3, 2, nil, true},
		{3, 3, nil, false}, // the rows are old, or there are none
		{3, 0, map[string]Track{"s": {TimelineID: 3}}, false}, // the ledger is a little older than what was heard
		{4, 0, map[string]Track{"s": {TimelineID: 3}}, true},
	} {
		if got := newTimeline(tc.timeline, tc.received, rows, tc.tracks); got != tc.want {
			t.Errorf("timeline %d, tracks %v: got %t, want %t", tc.timeline, tc.tracks, got, tc.want)
		}
	}
}

func TestOtherNode(t *testing.T) {
	was := NodeIdentity{SystemIdentifier: 1, DataDirectory: "/a", Host: "h"}
	if err := otherNode(was, was); err != nil {
		t.Error(err)
	}
	for _, now := range []NodeIdentity{{2, "/a", "h"}, {1, "/b", "h"}} {
		if otherNode(was, now) == nil {
			t.Errorf("%+v is taken for %+v", now, was)
		}
	}
}

// Whose slots they are is decided before the history is read: where --standby leads
// to the upstream itself, and that lets no walsender in, its slots were dropped half
// a minute later.
func TestPrimaryOfTheSameTimelineIsLeftAloneWithoutAHistory(t *testing.T) {
	h, err := New(Config{Standby: "host=/nonexistent", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if h.ledger, _, err = OpenLedger(h.cfg.StateDir, NodeIdentity{}); err != nil {
		t.Fatal(err)
	}
	row := LedgerRow{Name: "s", Database: "app", Plugin: "pgoutput", Intent: IntentDrop, TimelineID: 2}
	if err := h.ledger.Update(func(rows map[string]LedgerRow) { rows["s"] = row }); err != nil {
		t.Fatal(err)
	}
	h.standby.Timeline = 2
	h.promoteSince = time.Now().Add(-2 * promotionTimeout) // the history has been tried for long
	h.promote(t.Context())
	if !h.notPromoted {
		t.Error("the upstream is taken for the promoted standby")
	}
	h.standby.Timeline = 3
	h.promote(t.Context())
	if h.notPromoted {
		t.Error("the promoted standby is taken for the upstream")
	}
}
