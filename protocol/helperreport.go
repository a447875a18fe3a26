package protocol

import (
	"hash/crc32"

	"github.com/jackc/pgio"
)

// MsgHelperReport is the type of the message a helper sends back inside
// CopyData. Only a relay that was asked for slot messages understands it, and
// takes it out before the walsender sees it.
const MsgHelperReport = 'f'

// MaxHelperReport is the size cap of a report in bytes, type byte included:
// room for some 8,000 slots. A relay ends the session of a helper that exceeds
// it.
const MaxHelperReport = 1 << 20

// HelperReport is what a helper tells the relay on the same connection: which
// slots are ready on its standby, and whether it waits for a running-xacts
// record. It is a whole state; the newest replaces the rest.
//
//	Byte1('f') | Byte8("SLTFERRY") | Int16 version | Int64 SystemIdentifier | String Standby |
//	Int64 SnapshotRequest | Int32 n | n x (String Name | String State | String Reason) | Int32 CRC-32C
type HelperReport struct {
	SystemIdentifier uint64 `json:"system_identifier,string"`
	Standby          string `json:"standby"` // primary_slot_name of the standby, for people

	// SnapshotRequest counts up when the helper needs a running-xacts record. The
	// relay runs pg_log_standby_snapshot() when it sees a number it has not
	// served on this connection, at a bounded rate. 0 asks for nothing.
	SnapshotRequest uint64 `json:"snapshot_request"`

	Slots []SlotReport `json:"slots"`
}

// SlotReport is one slot of a HelperReport.
type SlotReport struct {
	Name   string `json:"slot_name"`
	State  string `json:"state"`  // pending, ready or blocked
	Reason string `json:"reason"` // "" when ready
}

// Decode reads a message body, without its type byte.
func (m *HelperReport) Decode(src []byte) error {
	c := cursor{b: src}
	if string(c.bytes(len(SlotMagic))) != SlotMagic {
		c.fail(ErrMagic)
	}
	if v := c.u16(); c.err == nil && v != SlotMessageVersion {
		c.fail(ErrVersion)
	}
	if c.err == nil && len(src) >= MaxHelperReport {
		c.fail(ErrTooLarge)
	}
	m.SystemIdentifier = c.u64()
	m.Standby = c.text()
	m.SnapshotRequest = c.u64()
	m.Slots = nil
	if n := c.count(6); n > 0 {
		m.Slots = make([]SlotReport, n)
	}
	for i := range m.Slots {
		s := &m.Slots[i]
		s.Name = c.text()
		s.State = c.text()
		s.Reason = c.text()
	}
	want := crc32.Checksum(src[:c.off], castagnoli)
	if sum := c.u32(); c.err == nil && sum != want {
		c.fail(ErrChecksum)
	}
	return c.done("HelperReport")
}

// Append appends the type byte and the body to dst.
func (m *HelperReport) Append(dst []byte) []byte {
	dst = append(dst, MsgHelperReport)
	at := len(dst)
	dst = append(dst, SlotMagic...)
	dst = pgio.AppendUint16(dst, SlotMessageVersion)
	dst = pgio.AppendUint64(dst, m.SystemIdentifier)
	dst = appendText(dst, m.Standby)
	dst = pgio.AppendUint64(dst, m.SnapshotRequest)
	dst = pgio.AppendUint32(dst, uint32(len(m.Slots)))
	for i := range m.Slots {
		s := &m.Slots[i]
		dst = appendText(dst, s.Name)
		dst = appendText(dst, s.State)
		dst = appendText(dst, s.Reason)
	}
	return pgio.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}
