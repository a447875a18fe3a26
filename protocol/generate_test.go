package protocol

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawText draws what a name can be on the wire: any bytes.
func drawText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "orders_sub", "\x00", "\xff\xfe", `\`, `\x41`, SlotMagic, strings.Repeat("n", 63)}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 70), func(b []byte) string { return string(b) }),
	)
}

func drawList[T any](one func(*rapid.T) T) *rapid.Generator[[]T] {
	return rapid.Map(rapid.SliceOfN(rapid.Custom(one), 0, 4), decoded[T])
}

func drawLSN(t *rapid.T, label string) LSN { return LSN(rapid.Uint64().Draw(t, label)) }

func drawSlot(t *rapid.T) SlotState {
	return SlotState{
		Name:               drawText().Draw(t, "name"),
		Plugin:             drawText().Draw(t, "plugin"),
		Database:           drawText().Draw(t, "database"),
		RestartLSN:         drawLSN(t, "restart_lsn"),
		ConfirmedFlushLSN:  drawLSN(t, "confirmed_flush_lsn"),
		CatalogXmin:        rapid.Uint32().Draw(t, "catalog_xmin"),
		TwoPhase:           rapid.Bool().Draw(t, "two_phase"),
		TwoPhaseAt:         drawLSN(t, "two_phase_at"),
		Failover:           rapid.Bool().Draw(t, "failover"),
		Synced:             rapid.Bool().Draw(t, "synced"),
		Active:             rapid.Bool().Draw(t, "active"),
		InvalidationReason: drawText().Draw(t, "invalidation_reason"),
		WALStatus:          drawText().Draw(t, "wal_status"),
		InactiveSince:      rapid.Int64().Draw(t, "inactive_since"),
		Readiness:          Readiness(rapid.IntRange(0, 2).Draw(t, "readiness")),
	}
}

// drawMessage draws any slot message that has a wire form. Epoch and Sequence
// are drawn small, so that two messages often share them.
func drawMessage(t *rapid.T) *SlotMessage {
	return &SlotMessage{
		Epoch:               rapid.Uint64Range(0, 1).Draw(t, "epoch"),
		Sequence:            rapid.Uint64Range(0, 1).Draw(t, "sequence"),
		SystemIdentifier:    rapid.Uint64().Draw(t, "system_identifier"),
		TimelineID:          rapid.Uint32().Draw(t, "timeline_id"),
		PostmasterStartTime: rapid.Int64().Draw(t, "postmaster_start_time"),
		ServerVersionNum:    rapid.Uint32().Draw(t, "server_version_num"),
		InRecovery:          rapid.Bool().Draw(t, "in_recovery"),
		CaptureLSN:          drawLSN(t, "capture_lsn"),
		CaptureTime:         rapid.Int64().Draw(t, "capture_time"),
		Interval:            rapid.Int64().Draw(t, "interval"),
		Slots:               drawList(drawSlot).Draw(t, "slots"),
		PhysicalSlots: drawList(func(t *rapid.T) PhysicalSlot {
			return PhysicalSlot{
				drawText().Draw(t, "name"), rapid.Bool().Draw(t, "active"), rapid.Bool().Draw(t, "temporary"),
				drawLSN(t, "restart_lsn"), rapid.Uint32().Draw(t, "xmin"), rapid.Uint32().Draw(t, "catalog_xmin"),
			}
		}).Draw(t, "physical_slots"),
		OpenTransactions: drawList(func(t *rapid.T) OpenTransaction {
			return OpenTransaction{
				drawText().Draw(t, "database"), rapid.Uint32().Draw(t, "xid"), rapid.Int32().Draw(t, "pid"),
				rapid.Int64().Draw(t, "xact_start"),
			}
		}).Draw(t, "open_transactions"),
		PreparedTransactions: drawList(func(t *rapid.T) PreparedTransaction {
			return PreparedTransaction{
				drawText().Draw(t, "database"), drawText().Draw(t, "gid"), rapid.Uint32().Draw(t, "xid"),
				rapid.Int64().Draw(t, "prepared"),
			}
		}).Draw(t, "prepared_transactions"),
	}
}

func drawReport(t *rapid.T) *HelperReport {
	return &HelperReport{
		SystemIdentifier: rapid.Uint64().Draw(t, "system_identifier"),
		Standby:          drawText().Draw(t, "standby"),
		SnapshotRequest:  rapid.Uint64().Draw(t, "snapshot_request"),
		Slots: drawList(func(t *rapid.T) SlotReport {
			return SlotReport{
				drawText().Draw(t, "name"), drawText().Draw(t, "state"), drawText().Draw(t, "reason"),
			}
		}).Draw(t, "slots"),
	}
}

// manySlots makes a message of n slots with names of 63 bytes, some of them
// hostile.
func manySlots(n int) *SlotMessage {
	m := &SlotMessage{Epoch: 7, Sequence: 9, SystemIdentifier: 1, TimelineID: 1}
	for i := range n {
		name := fmt.Sprintf("%-63d", i)
		if i%3 == 0 {
			name = strings.ReplaceAll(name, " ", string([]byte{byte(i)}))
		}
		m.Slots = append(m.Slots, SlotState{
			Name: name, Plugin: "pgoutput", Database: strings.Repeat("d", 63), RestartLSN: LSN(i), ConfirmedFlushLSN: LSN(2 * i),
			TwoPhase: i%2 == 0, WALStatus: "reserved", Readiness: Readiness(i % 3),
		})
	}
	return m
}

// mustParts encodes a message that must have a wire form.
func mustParts(t testing.TB, m *SlotMessage, maxBody int) [][]byte {
	t.Helper()
	bodies, err := m.Parts(maxBody)
	if err != nil {
		t.Fatalf("Parts(%d): %v", maxBody, err)
	}
	return bodies
}

// assemble feeds all bodies and returns what the last one gave.
func assemble(bodies [][]byte) (m *SlotMessage, err error) {
	var a Assembler
	for i, body := range bodies {
		if m, err = a.Add(body); err != nil || (m != nil && i < len(bodies)-1) {
			return nil, fmt.Errorf("part %d of %d: %v, %w", i, len(bodies), m, err)
		}
	}
	return m, nil
}

// inOnePart wraps a payload that was made by hand.
func inOnePart(payload []byte) []byte {
	p := Part{Version: SlotMessageVersion, Count: 1, PayloadLen: uint32(len(payload)), Chunk: payload}
	p.PayloadCRC = checksum(payload)
	return p.Append(nil)
}
