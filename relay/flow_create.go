package relay

import (
	"errors"

	"github.com/slotferry/slotferry/protocol"
)

// errCreateAnswer ends a session in which nobody can say when its next row may pass.
var errCreateAnswer = errors.New("the answer to CREATE_REPLICATION_SLOT cannot be read")

// decideCreate holds back the answer to a CREATE_REPLICATION_SLOT that makes a
// logical slot, from its DataRow on: with the slot's snapshot its client copies
// tables, and gets rows that no standby may have. It waits for consistent_point,
// which is behind every commit that the snapshot sees.
//
// The snapshot is made of what decoding has read of WAL (SnapBuildInitialSnapshot,
// snapbuild.c). Committed are for it the transactions whose commit records it has
// read, and those below its xmin, which had ended when the last running-xacts record
// was written: with wal_level = logical nobody can end between the look at the running
// ones and that record (LogStandbySnapshot, standby.c), so their commits are before
// it. All others it takes for running, whatever they have become since. And
// consistent_point is the end of the record that decoding has read last
// (DecodingContextFindStartpoint, logical.c).
//
// Until the client has the answer it reads nothing: an exported snapshot has no name
// yet, and one that is used is used by commands that come behind. A slot with
// SNAPSHOT 'nothing' gives nobody rows but by its stream, which is held back itself,
// and its answer passes.
//
// decided is false for frames that this has no hand in.
func (f *Flow) decideCreate(h protocol.FrameHeader, b []byte, v *Verdict) (s step, decided bool) {
	certain := f.conv.createsForCertain()
	switch {
	case h.Type == protocol.FrameRowDescription && certain:
		f.conv.creation = true
		return step{}, false
	case h.Type == protocol.FrameRowDescription:
		// Of which command, the columns tell.
		f.conv.creation = false
		if h.Size() > maxHeldQuery {
			return step{}, false
		}
		if len(b) < h.Size() {
			return step{}, true
		}
		var m protocol.RowDescription
		f.conv.creation = m.Decode(b[protocol.FrameHeaderLen:h.Size()]) == nil && m.NamesCreateReplicationSlot()
		return step{}, false
	case h.Type != protocol.FrameDataRow || !f.conv.creation:
		return step{}, false
	case h.Size() > maxHeldQuery && certain:
		return step{err: errCreateAnswer}, true
	case h.Size() > maxHeldQuery:
		return step{}, false
	case len(b) < h.Size():
		return step{}, true
	}
	var row protocol.CreateReplicationSlotRow
	switch err := row.Decode(b[protocol.FrameHeaderLen:h.Size()]); {
	case err != nil && certain:
		return step{err: errCreateAnswer}, true
	case err != nil || f.gate.create(row.SlotName, row.ConsistentPoint):
		return step{}, false
	}
	v.Held = true
	return step{}, true
}
