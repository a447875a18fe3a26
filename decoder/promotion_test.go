package decoder

import "testing"

// An address of the standby that fails over leads to the upstream itself one day,
// which is a primary and has slots of the same names. Those are not the helper's.
func TestNewTimeline(t *testing.T) {
	rows := map[string]LedgerRow{"s": {TimelineID: 2}, "old": {TimelineID: 9, Released: true}}
	for _, tc := range []struct {
		timeline uint32
		tracks   map[string]Track
		want     bool
	}{
		{3, nil, true},
		{2, nil, false}, // the upstream
		{1, nil, false},
		{3, map[string]Track{"s": {TimelineID: 3}}, false}, // the ledger is a little older than what was heard
		{4, map[string]Track{"s": {TimelineID: 3}}, true},
	} {
		if got := newTimeline(tc.timeline, rows, tc.tracks); got != tc.want {
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
