package decoder

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// Names that go into commands, from a relay that may be anybody's.
func TestImpossibleNames(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for _, tt := range []struct {
		slot, database, plugin string
		want                   bool
	}{
		{"orders_sub_1", "postgres", "pgoutput", true},
		{"_", "d", "p", true},
		{long, long, long, true},
		{"s", `we'ird "db" \ x`, "test_decoding", true},
		{"s", "Ünï", "$libdir/own", true},
		{"s", "caf\xe9", "p", true}, // LATIN1
		{"", "d", "p", false},
		{long + "n", "d", "p", false},
		{"Orders", "d", "p", false},
		{"a b", "d", "p", false},
		{`s"`, "d", "p", false},
		{`x" LOGICAL 0/0; DROP_REPLICATION_SLOT "y`, "d", "p", false},
		{"s';--", "d", "p", false},
		{"s\x00", "d", "p", false},
		{"s\xff", "d", "p", false},
		{"s", "", "p", false},
		{"s", "d\x00user\x00postgres", "p", false},
		{"s", long + "n", "p", false},
		{"s", "d", "", false},
		{"s", "d", "p\x00", false},
		{"s", "d", long + "n", false},
	} {
		m := &protocol.SlotMessage{Slots: []protocol.SlotState{
			{Name: "first", Database: "d", Plugin: "p"}, {Name: tt.slot, Database: tt.database, Plugin: tt.plugin},
		}}
		if err := possible(m); (err == nil) != tt.want {
			t.Errorf("%q of %q with %q: %v", tt.slot, tt.database, tt.plugin, err)
		}
	}
}

// A message with such a name is refused as a whole, before anything of it is
// remembered, and said once, however often it comes.
func TestMessageWithImpossibleNameIsRefused(t *testing.T) {
	var log strings.Builder
	h, err := New(Config{Standby: "host=localhost", StateDir: t.TempDir(), Logger: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	if h.ledger, _, err = OpenLedger(h.cfg.StateDir, NodeIdentity{}); err != nil {
		t.Fatal(err)
	}
	h.standby.SystemIdentifier, h.standby.ReceivedTLI = 1, 1
	message := func(name string) *protocol.SlotMessage {
		return &protocol.SlotMessage{SystemIdentifier: 1, TimelineID: 1, Slots: []protocol.SlotState{
			{Name: "fine", Database: "d", Plugin: "p", ConfirmedFlushLSN: 0x50}, {Name: name, Database: "d", Plugin: "p"},
		}}
	}
	for range 100 {
		if up := h.takeMessage(Upstream{Message: message(`"; DROP`)}); up.Message != nil {
			t.Fatalf("taken: %+v", up.Message)
		}
	}
	if len(h.tracks) != 0 {
		t.Errorf("remembered: %+v", h.tracks)
	}
	if n := strings.Count(log.String(), "no server can have"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log.String())
	}
	if up := h.takeMessage(Upstream{Message: message("good")}); up.Message == nil || len(h.tracks) != 2 {
		t.Errorf("a message without is not taken: %+v, tracks %+v", up, h.tracks)
	}
}

// The name cannot be given back, so nothing is made that would be taken for another's
// and dropped, again and again; and the slot beside it does not notice.
func TestDatabaseNameThatIsNotUTF8(t *testing.T) {
	b := newViewText(t)
	b.apply("upstream bad 0/5000\nupstream good 0/5000")
	b.v.Upstream.Message.Slots[0].Database = "caf\xe9"
	b.observe()
	d := Decide(&b.v)
	if len(d.Steps) != 1 || d.Steps[0].Slot != "good" {
		t.Errorf("steps %v", d.Steps)
	}
	if s := d.Slots[0]; s.State != StateBlocked || !strings.Contains(s.Detail, `"caf\xe9"`) {
		t.Errorf("got %s, want its database named", s)
	}
}
