package decoder

import "github.com/slotferry/slotferry/protocol"

// takeRenames brings rows up to an ALTER DATABASE ... RENAME that has been replayed.
// A slot knows its database by its OID and shows whatever name that has, so the
// slot is the same. It can be told from another one in two ways: the upstream has
// its slot under the new name, too, and this one is where it was last.
func takeRenames(rows map[string]LedgerRow, tracks map[string]Track, standby *Standby) {
	for name, row := range rows {
		l, exists := standby.Slot(name)
		t := tracks[name]
		if !exists || row.Released || row.Intent != IntentNone || l.Database == row.Database || l.Database != t.Database {
			continue
		}
		renamed := row
		renamed.Database = l.Database
		same := l.ConfirmedFlushLSN == t.Left
		if t.Left == protocol.InvalidLSN { // not seen by this helper, or a step of ours failed halfway
			same = l.ConfirmedFlushLSN <= row.UpstreamLSN
		}
		if same && renamed.describes(&l) {
			rows[name] = renamed
		}
	}
}
