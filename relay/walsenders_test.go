package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// What a row says with and without the privilege to see it.
func TestReadWalsenders(t *testing.T) {
	got, err := readWalsenders([][][][]byte{
		{
			row("10", "s1", "streaming", "0/300", "phys1", "physical", "0/200"),
			row("11", "s2", "catchup", "0/100", "-", "-", "-"),
			row("12", "sub", "streaming", "0/900", "orders", "logical", "0/80"),
			row("13", "s3", "stopping", "-", "phys3", "physical", "0/700"), // has said nothing: its slot tells of its former life
			row("14", "-", "-", "-", "phys4", "physical", "0/400"),
			row("15", "-", "-", "-", "-", "-", "-"),
			row("16", "-", "-", "-", "audit", "logical", "0/400"),
		},
		{row("orders", "12", "0/880"), row("idle", "-", "-")},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, w := range got.list {
		lines = append(lines, fmt.Sprintf("%d %s %s %v physical=%v streaming=%v", w.pid, w.ApplicationName, w.Slot, w.Flush, w.physical, w.Streaming))
	}
	want := []string{
		"10 s1 phys1 0/300 physical=true streaming=true",
		"11 s2  0/100 physical=true streaming=false",
		"12 sub  0/900 physical=false streaming=true",
		"13 s3 phys3 0/0 physical=true streaming=true",
		"14  phys4 0/400 physical=true streaming=true",
		"15   0/0 physical=true streaming=true",
		"16   0/0 physical=false streaming=true",
	}
	if text := strings.Join(lines, "\n"); text != strings.Join(want, "\n") {
		t.Errorf("got\n%s", text)
	}
	if len(got.slots) != 2 || got.slots[0] != (logicalSlot{"orders", 12, 0x880}) || got.slots[1] != (logicalSlot{name: "idle"}) || !got.inRecovery {
		t.Errorf("slots %+v", got.slots)
	}
	for _, bad := range [][][][][]byte{
		{}, {nil}, {{row("x", "s1", "streaming", "0/300", "-", "-", "-")}, nil}, {nil, {row("a", "1", "nonsense")}}, {{row("1")}, nil},
	} {
		if _, err := readWalsenders(bad, false); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// Who consumes a slot is known by who has it in use, and where nobody has, by its
// position, which moves by itself for no one.
func TestWhoConsumesASlot(t *testing.T) {
	const ours, other, backend = 1, 2, 3
	read := func(active uint32, confirmed protocol.LSN, inRecovery bool) *walsenders {
		return &walsenders{
			list: []walsender{{pid: ours}, {pid: other}}, inRecovery: inRecovery,
			slots: []logicalSlot{{name: "s", active: active, confirmed: confirmed}},
		}
	}
	relays := map[uint32]bool{ours: true}
	var list []HoldSlot
	for i, step := range []struct {
		active     uint32
		confirmed  protocol.LSN
		inRecovery bool
		want       HoldConsumer
	}{
		{0, 0x100, false, ConsumerNone},
		{0, 0x100, false, ConsumerNone},
		{ours, 0x100, false, ConsumerRelay},
		{ours, 0x200, false, ConsumerRelay},
		{0, 0x300, false, ConsumerRelay}, // between two looks: its last words
		{0, 0x300, false, ConsumerRelay},
		{other, 0x300, false, ConsumerWalsender},
		{0, 0x300, false, ConsumerWalsender},
		{0, 0x400, false, ConsumerSQL},
		{ours, 0x400, false, ConsumerRelay},
		{backend, 0x400, false, ConsumerSQL},
		{0, 0x400, false, ConsumerSQL},
		{ours, 0x400, false, ConsumerRelay},
		{0, 0x400, true, ConsumerRelay},
		{0, 0x500, true, ConsumerRelay}, // on a standby the helper does that
	} {
		list = holdSlots(list, read(step.active, step.confirmed, step.inRecovery), relays, []string{"x*"})
		if len(list) != 1 || list[0].Consumer != step.want || list[0].Exempt {
			t.Errorf("step %d: %+v, want %q", i, list, step.want)
		}
	}
	if list = holdSlots(list, read(0, 0, false), relays, []string{"s"}); !list[0].Exempt {
		t.Error("an exempt slot is not called so")
	}
	if list = holdSlots(list, &walsenders{}, relays, nil); len(list) != 0 {
		t.Errorf("a slot that was dropped is listed: %+v", list)
	}
}

// A configuration of hold-back is refused for all its faults at once.
func TestHoldBackConfigFaults(t *testing.T) {
	source, err := NewSlotSource(SlotSourceConfig{Conninfo: "host=a"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Config{
		Listen: []string{"127.0.0.1:0"}, Upstream: "host=a", Mode: ModeStrip,
		HoldBack: &HoldBack{Exempt: []string{"["}, Timeout: -1, Source: source},
	})
	for _, want := range []string{
		"no standbys", `glob "["`, "timeout is negative", "no slot source that reads walsenders", "mode strip holds no", "sessions that the relay can read",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}
