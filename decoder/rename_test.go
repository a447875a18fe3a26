package decoder

import (
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
)

func TestTakeRenames(t *testing.T) {
	settled := LedgerRow{Name: "s", Database: "app", Plugin: "pgoutput", BornLSN: 0x1000, UpstreamLSN: 0x4000}
	released, dropping := settled, settled
	released.Released, dropping.Intent = true, IntentDrop
	for _, tc := range []struct {
		name  string
		row   LedgerRow
		slot  protocol.SlotState
		heard string // database of the upstream's slot
		left  protocol.LSN
		want  string
	}{
		{"renamed on both sides", settled, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x5000}, "sales", 0x5000, "sales"},
		{"seen by an earlier helper", settled, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x4000}, "sales", 0, "sales"},
		{"past what an earlier helper knew", settled, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x4001}, "sales", 0, "app"},
		{"not where it was left", settled, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x5001}, "sales", 0x5000, "app"},
		{"on the standby alone", settled, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x5000}, "app", 0x5000, "app"},
		{"another plugin", settled, protocol.SlotState{Database: "sales", Plugin: "wal2json", ConfirmedFlushLSN: 0x5000}, "sales", 0x5000, "app"},
		{"its subscriber's", released, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x5000}, "sales", 0x5000, "app"},
		{"to be dropped", dropping, protocol.SlotState{Database: "sales", Plugin: "pgoutput", ConfirmedFlushLSN: 0x5000}, "sales", 0x5000, "app"},
	} {
		rows := map[string]LedgerRow{"s": tc.row}
		tc.slot.Name = "s"
		takeRenames(rows, map[string]Track{"s": {Database: tc.heard, Left: tc.left}}, &Standby{Slots: []LocalSlot{{SlotState: tc.slot}}})
		if got := rows["s"].Database; got != tc.want {
			t.Errorf("%s: the row is of database %s, want %s", tc.name, got, tc.want)
		}
	}
}

// ALTER DATABASE ... RENAME is not a new slot: the one on the standby stays, and is
// ready under the new name.
func TestDatabaseIsRenamed(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newPair(t, major)
		clustertest.Exec(t, p.primary, "postgres", "CREATE DATABASE shop")
		p.waitAnchor(t)
		p.create(t, "shop", "s")
		p.slot(t, "s", StateReady, ReasonNone)
		for _, name := range []string{"store", `"a b"`, "shop"} {
			clustertest.Exec(t, p.standby, "postgres", "SELECT pg_wal_replay_pause()")
			clustertest.Exec(t, p.primary, "postgres", "ALTER DATABASE "+databaseOf(t, p, "s")+" RENAME TO "+name)
			p.slot(t, "s", StatePending, ReasonWALNotReplayed)
			clustertest.Exec(t, p.standby, "postgres", "SELECT pg_wal_replay_resume()")
			if s := p.slot(t, "s", StateReady, ReasonNone); s.Database != strings.Trim(name, `"`) {
				t.Errorf("ready in database %s, want %s", s.Database, name)
			}
		}
		if strings.Contains(p.log.String(), "slot dropped") || strings.Contains(p.log.String(), string(ReasonNameClash)) {
			t.Error("the slot was dropped, or taken for another's")
		}
	})
}

// databaseOf is the quoted name of the database of a slot on the primary.
func databaseOf(t *testing.T, p *pair, slot string) string {
	t.Helper()
	return clustertest.Value[string](t, p.primary, "postgres",
		"SELECT quote_ident(database) FROM pg_replication_slots WHERE slot_name = $1", slot)
}
