package protocol

import (
	"fmt"

	"github.com/jackc/pgio"
)

// MsgHelperReport is the type of the message a helper sends back inside
// CopyData. Only a relay that was asked for slot messages understands it, and
// takes it out before the walsender sees it.
const MsgHelperReport = 'f'

// MaxHelperReport is the size cap of a report in bytes, type byte included:
// room for some 8,000 slots. A relay takes a larger one out unread: the
// stream it came on goes on.
const MaxHelperReport = 1 << 20

// HelperReport is what a helper tells the relay on the same connection: which
// slots are ready on its standby, and whether it waits for a running-xacts
// record. It is a whole state; the newest replaces the rest.
//
//	Byte1('f') | Byte8("SLTFERRY") | Int16 version | Int64 SystemIdentifier | Text Standby |
//	Int64 SnapshotRequest | Int32 n | n x (Int32 length | Text Name | Text State | Text Reason | optional fields) |
//	optional fields | Int32 CRC-32C
//
// Records, optional fields and Texts (Int16 length, bytes) are as in a slot message.
type HelperReport struct {
	SystemIdentifier uint64 `json:"system_identifier,string"`
	Standby          string `json:"standby"` // primary_slot_name of the standby, for people

	// SnapshotRequest counts up when the helper needs a running-xacts record. The
	// relay runs pg_log_standby_snapshot() when it sees a number it has not
	// served on this connection, at a bounded rate. 0 asks for nothing.
	SnapshotRequest uint64 `json:"snapshot_request"`

	Slots []SlotReport `json:"slots"`
}

const minSlotReport = 4 + 3*2

// SlotReport is one slot of a HelperReport.
type SlotReport struct {
	Name   string `json:"slot_name"`
	State  string `json:"state"`  // pending, ready or blocked
	Reason string `json:"reason"` // "" when ready
}

// Decode reads a message body, without its type byte. Damage anywhere behind
// the version is ErrChecksum.
func (m *HelperReport) Decode(src []byte) error {
	c := cursor{b: src}
	c.opening()
	if len(src) >= MaxHelperReport {
		c.failAt(MaxHelperReport-1, ErrTooLarge)
	}
	fields := cursor{b: c.bytes(len(src) - c.off - crcLen)}
	if sum := c.u32(); c.err == nil && sum != checksum(src[:c.at]) {
		c.fail(ErrChecksum)
	}
	if c.err != nil {
		return c.done("HelperReport")
	}
	m.SystemIdentifier = fields.u64()
	m.Standby = fields.text()
	m.SnapshotRequest = fields.u64()
	m.Slots = records(&fields, minSlotReport, (*SlotReport).decode)
	skipOptional(&fields)
	if fields.err != nil {
		c.failAt(len(SlotMagic)+2+fields.at, fields.err)
	}
	return c.done("HelperReport")
}

// Append appends the type byte and the body to dst. A report that a relay
// would refuse is not encoded, but ErrTooLarge.
func (m *HelperReport) Append(dst []byte) ([]byte, error) {
	if err := m.eachText(checkLength); err != nil {
		return dst, fmt.Errorf("encode helper report: %w", err)
	}
	at := len(dst)
	out := append(dst, MsgHelperReport)
	out = append(out, SlotMagic...)
	out = pgio.AppendUint16(out, SlotMessageVersion)
	out = pgio.AppendUint64(out, m.SystemIdentifier)
	out = appendText(out, m.Standby)
	out = pgio.AppendUint64(out, m.SnapshotRequest)
	out = appendRecords(out, m.Slots, (*SlotReport).append)
	out = pgio.AppendUint32(out, checksum(out[at+1:]))
	if n := len(out) - at; n > MaxHelperReport {
		return dst, fmt.Errorf("encode helper report: %d bytes: %w", n, ErrTooLarge)
	}
	return out, nil
}

func (s *SlotReport) append(dst []byte) []byte {
	dst = appendText(dst, s.Name)
	dst = appendText(dst, s.State)
	return appendText(dst, s.Reason)
}

func (s *SlotReport) decode(c *cursor) {
	s.Name = c.text()
	s.State = c.text()
	s.Reason = c.text()
}
