package preflight

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/slotferry/slotferry/relay"
)

func TestCheckHoldBack(t *testing.T) {
	if got := CheckHoldBack(&relay.Status{}, time.Time{}); got != nil {
		t.Errorf("without hold-back: %+v", got)
	}
	now := time.Now()
	moment, long := now.Add(-relay.HeldLong/2), now.Add(-2*relay.HeldLong)
	r := &relay.Status{
		HoldBack: &relay.HoldBackStatus{
			Standbys: "s1", Known: true, Position: 0x300,
			Connected: []relay.Standby{{ApplicationName: "s1", Flush: 0x300, Streaming: true}, {ApplicationName: "s2"}},
			Slots: []relay.HoldSlot{
				{Name: "fine", Consumer: relay.ConsumerRelay, PID: 1},
				{Name: "unused"},
				{Name: "free", Consumer: relay.ConsumerWalsender, PID: 2, Exempt: true},
				{Name: "direct", Consumer: relay.ConsumerWalsender, PID: 3, Ahead: 0x100},
				{Name: "polled", Consumer: relay.ConsumerSQL},
			},
		},
		Sessions: []relay.SessionStatus{
			{HoldBack: &relay.StreamHold{Slot: "fine", State: "held", Since: &moment}},
			{HoldBack: &relay.StreamHold{Slot: "stuck", State: "held", Since: &long, Reason: relay.HoldBehind, By: []string{"s1", "s2"}}},
			{HoldBack: &relay.StreamHold{Slot: "pooled", State: "held", Since: &long, Reason: relay.HoldUnlisted, Hint: relay.HoldUnlisted.Hint()}},
			{HoldBack: &relay.StreamHold{Slot: "slow", State: "let_go"}}, {},
		},
	}
	summary := func() (got []string) {
		for _, f := range CheckHoldBack(r, now) {
			got = append(got, fmt.Sprintf("%s %s: %s", f.Level, f.Setting, f.Value))
			if f.Side != Upstream || f.Want == "" || (f.Level == OK) != (f.Change == "") {
				t.Errorf("%+v", f)
			}
		}
		return got
	}
	want := []string{
		`ok hold-back: s1 at 0/300`,
		`warn hold-back of slot "direct": walsender 3 is not of this relay, 256 bytes ahead of the standbys`,
		`warn hold-back of slot "polled": consumed by SQL functions`,
		`warn hold-back of slot "stuck": held for 20s: standby_behind (s1, s2)`,
		`warn hold-back of slot "pooled": held for 20s: walsender_not_listed`,
		`warn hold-back of slot "slow": let go after --hold-back-timeout`,
	}
	if got := summary(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	r.Sessions, r.HoldBack.Slots, r.HoldBack.Position, r.HoldBack.Connected = nil, nil, 0, nil
	if got, want := summary(), []string{"warn hold-back: no standby streams"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
