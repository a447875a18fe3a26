package decoder

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

func TestPromotionText(t *testing.T) {
	r := PromotionReport{
		Time: time.Date(2026, 11, 30, 10, 13, 24, 0, time.UTC), TimelineID: 2, SwitchLSN: 0x3025AB0,
		Slots: []PromotionSlot{
			{Name: "audit", Database: "shop", Usable: true, Action: PromotionAdvance, Local: 0x3025AB0, Last: 0x3026000,
				Ahead: &SubscriberAhead{From: 0x3025AB0, To: 0x3026000}},
			{Name: "clash", Database: "shop", Action: PromotionMissing, Reason: ReasonNameClash, Last: 0x3025A38},
			{Name: "found", Database: "shop", Action: PromotionKeep, Reason: ReasonFound, Local: 0x3025A38, Last: 0x3025A38},
			{Name: "late", Database: "a\tb", Action: PromotionMissing, Reason: ReasonSubscriberBehind, Last: 0x3010000},
			{Name: "nosy", Database: "shop", Action: PromotionDrop, Reason: ReasonConsumedOnStandby, Local: 0x3025A90,
				Last: 0x3025A38, Error: "in use by its subscriber"},
			{Name: "orders", Database: "shop", Usable: true, Action: PromotionAdvance, Local: 0x3025A38, Last: 0x3025AA0,
				DuplicateBytes: 0x68},
		},
	}
	const want = `promoted to timeline 2 at 0/3025AB0, 2026-11-30 10:13:24 UTC
SLOT    DATABASE  USABLE  STANDBY    SUBSCRIBER  SENT TWICE  NOTE
audit   shop      yes     0/3025AB0  0/3026000          0 B  subscriber is ahead, from 0/3025AB0 to 0/3026000
clash   shop      NO      -          0/3025A38            -  name_clash
found   shop      NO      0/3025A38  0/3025A38            -  waiting_for_consistent_point
late    a\x09b    NO      -          0/3010000            -  subscriber_behind
nosy    shop      NO      0/3025A90  0/3025A38            -  consumed_on_standby in use by its subscriber
orders  shop      yes     0/3025A38  0/3025AA0        104 B
2 of 6 slots usable
audit: its subscriber has commits that this server never had. What this
  server commits below 0/3026000 is never sent to it. Before the first write:
  SELECT pg_switch_wal(); until pg_current_wal_lsn() is past that.
clash: the slot of this name is not slotferry's, and was left alone.
  What it has missed is not known. Set the subscription up anew.
found: it was here before the helper. Whether it can be decoded without a
  gap is not known: compare the subscriber's rows, or set it up anew.
late: the slot is not here, and its subscriber is told so. Set the
  subscription up anew.
nosy: it would lose changes and has to go, but could not be dropped.
  That is tried again. Set the subscription up anew.
`
	if got := r.Text(false); got != want {
		t.Errorf("got:\n%s", got)
	}
	if got := r.Text(true); !strings.Contains(got, "\x1b[31mNO\x1b[0m") {
		t.Errorf("without colour:\n%s", got)
	}
	empty := PromotionReport{TimelineID: 3}
	if got := empty.Text(false); !strings.HasSuffix(got, "\nno slots\n") {
		t.Errorf("got:\n%s", got)
	}
}

// A helper that is started between two tries knows of the first only what the
// ledger and the report say.
func TestPromotionReportsOfOnePromotionAreMerged(t *testing.T) {
	ahead := &SubscriberAhead{From: 0x50, To: 0x60}
	first := &PromotionReport{TimelineID: 2, Slots: []PromotionSlot{
		{Name: "done", Usable: true, Local: 0x50, Last: 0x60, Target: 0x50, Ahead: ahead},
		{Name: "moved", Usable: true, Local: 0x30, Last: 0x50, Target: 0x50, DuplicateBytes: 0x20},
		{Name: "nosy", Action: PromotionDrop, Reason: ReasonConsumedOnStandby, Error: "in use by its subscriber"},
	}}
	second := func() *PromotionReport {
		return &PromotionReport{TimelineID: 2, Slots: []PromotionSlot{
			{Name: "moved", Usable: true, Local: 0x40, Last: 0x38, Target: 0x38},
			{Name: "new", Usable: true},
			{Name: "nosy", Action: PromotionDrop, Reason: ReasonBeingRebuilt},
		}}
	}
	r := second()
	r.merge(first)
	want := []PromotionSlot{
		first.Slots[0],
		{Name: "moved", Usable: true, Local: 0x40, Last: 0x50, Target: 0x50, DuplicateBytes: 0x10},
		{Name: "new", Usable: true},
		{Name: "nosy", Action: PromotionDrop, Reason: ReasonConsumedOnStandby},
	}
	if !reflect.DeepEqual(r.Slots, want) {
		t.Errorf("got  %+v\nwant %+v", r.Slots, want)
	}
	// Of another promotion nothing is taken over.
	first.TimelineID = 1
	r = second()
	r.merge(first)
	if !reflect.DeepEqual(r, second()) {
		t.Errorf("merged with a report of another promotion: %+v", r.Slots)
	}
}

func TestPromotionReportIsKept(t *testing.T) {
	dir := t.TempDir()
	if r, err := readPromotion(dir); r != nil || err != nil {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
	want := &PromotionReport{Time: viewNow, TimelineID: 2, SwitchLSN: 0x50, Slots: []PromotionSlot{{Name: "s", Last: 0x60}}}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readPromotion(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What somebody else has made under a slot's name is there, and its subscriber goes
// on from it: the report says so, and does not count it as usable.
func TestReportNamesSlotsThatAreNotTheHelpers(t *testing.T) {
	standby := &Standby{Slots: []LocalSlot{{SlotState: protocol.SlotState{Name: "theirs", ConfirmedFlushLSN: 0x3000}}}}
	r := PromotionReport{Slots: []PromotionSlot{{Name: "ours", Usable: true}}}
	r.addPending([]SlotStatusJSON{
		{Name: "theirs", Reason: ReasonNameClash, Upstream: 0x5000},
		{Name: "never_made", Reason: ReasonSubscriberBehind, Upstream: 0x5000},
		{Name: "ours", Reason: ReasonBeingMade},
	}, standby)
	if len(r.Slots) != 3 {
		t.Fatalf("got %+v", r.Slots)
	}
	for _, p := range r.Slots {
		want := map[string]PromotionAction{"theirs": PromotionKeep, "never_made": PromotionMissing, "ours": ""}[p.Name]
		if p.Action != want || p.Usable != (p.Name == "ours") {
			t.Errorf("%s: %s, usable %t, want %s", p.Name, p.Action, p.Usable, want)
		}
	}
	if text := r.Text(false); !strings.Contains(text, "1 of 3 slots usable") || !strings.Contains(text, "theirs: the slot of this name is not slotferry's") {
		t.Errorf("the report says\n%s", text)
	}
}

// A look at a standby remembers what is not the helper's until the promotion.
func TestSlotsThatAreNotTheHelpersAreRemembered(t *testing.T) {
	h, err := New(Config{Standby: "host=localhost", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b := newViewText(t)
	b.apply(`
upstream clash 0/5000
standby clash 0/4000 db=other
upstream made 0/5000
standby made 0/4000
owned made
upstream behind 0/500
standby extra 0/4000
owned extra released`)
	b.observe()
	d := Decide(&b.v)
	h.publish(&b.v, &d)
	var names []string
	for _, s := range h.pending {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "behind clash" {
		t.Errorf("remembered %s", got)
	}
	since := map[string]time.Time{}
	for _, s := range h.Status().Slots {
		since[s.Name] = s.Since
	}
	for range 2 { // the second time nothing has changed
		h.publishUnreachable(ReasonPrivilege, errors.New("no"))
		for _, s := range h.Status().Slots {
			if s.State != StateBlocked || s.Reason != ReasonPrivilege || s.Since.Equal(since[s.Name]) {
				t.Errorf("%s is %s %s since %s, before since %s", s.Name, s.State, s.Reason, s.Since, since[s.Name])
			}
		}
		if first := h.Status().Slots[0].Since; h.Status().Slots[len(h.Status().Slots)-1].Since != first {
			t.Error("they do not have it since the same moment")
		}
	}
}
