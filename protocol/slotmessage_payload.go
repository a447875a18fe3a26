package protocol

import (
	"fmt"

	"github.com/jackc/pgio"
)

// Bits of a slot's Int16 flags. A bit without a name here is refused: what may
// be skipped comes as an optional field instead.
const (
	slotTwoPhase = 1 << iota
	slotFailover
	slotSynced
	slotActive
	slotFlagsKnown = 1<<iota - 1
)

const (
	physicalActive = 1 << iota
	physicalTemporary
	physicalFlagsKnown = 1<<iota - 1
)

// Least encoded sizes, for bounding counts before anything is allocated.
const (
	minSlotRecord     = 4 + 3*2 + 8 + 8 + 4 + 2 + 8 + 2*2 + 8 + 1
	minPhysicalRecord = 4 + 2 + 2 + 8 + 4 + 4
	minOpenRecord     = 4 + 2 + 4 + 4 + 8
	minPreparedRecord = 4 + 2 + 2 + 4 + 8
)

// appendPayload appends what the parts of a message carry together.
func (m *SlotMessage) appendPayload(dst []byte) []byte {
	dst = pgio.AppendUint64(dst, m.SystemIdentifier)
	dst = pgio.AppendUint32(dst, m.TimelineID)
	dst = pgio.AppendInt64(dst, m.PostmasterStartTime)
	dst = pgio.AppendUint32(dst, m.ServerVersionNum)
	dst = appendFlag(dst, m.InRecovery)
	dst = pgio.AppendUint64(dst, uint64(m.CaptureLSN))
	dst = pgio.AppendInt64(dst, m.CaptureTime)
	dst = pgio.AppendInt64(dst, m.Interval)
	dst = appendRecords(dst, m.Slots, (*SlotState).append)
	dst = appendRecords(dst, m.PhysicalSlots, (*PhysicalSlot).append)
	dst = appendRecords(dst, m.OpenTransactions, (*OpenTransaction).append)
	return appendRecords(dst, m.PreparedTransactions, (*PreparedTransaction).append)
}

// check refuses what the wire form cannot carry unchanged.
func (m *SlotMessage) check() error {
	for i := range m.Slots {
		if r := m.Slots[i].Readiness; r > ReadinessNotReady {
			return fmt.Errorf("slots[%d]: readiness %d: %w", i, r, ErrInvalid)
		}
	}
	return m.eachText(checkLength)
}

func (m *SlotMessage) decodePayload(payload []byte) error {
	c := cursor{b: payload}
	m.SystemIdentifier = c.u64()
	m.TimelineID = c.u32()
	m.PostmasterStartTime = c.micros()
	m.ServerVersionNum = c.u32()
	m.InRecovery = c.flag()
	m.CaptureLSN = c.lsn()
	m.CaptureTime = c.micros()
	m.Interval = c.micros()
	m.Slots = records(&c, minSlotRecord, (*SlotState).decode)
	m.PhysicalSlots = records(&c, minPhysicalRecord, (*PhysicalSlot).decode)
	m.OpenTransactions = records(&c, minOpenRecord, (*OpenTransaction).decode)
	m.PreparedTransactions = records(&c, minPreparedRecord, (*PreparedTransaction).decode)
	skipOptional(&c)
	return c.done("SlotMessage")
}

func (s *SlotState) append(dst []byte) []byte {
	dst = appendText(dst, s.Name)
	dst = appendText(dst, s.Plugin)
	dst = appendText(dst, s.Database)
	dst = pgio.AppendUint64(dst, uint64(s.RestartLSN))
	dst = pgio.AppendUint64(dst, uint64(s.ConfirmedFlushLSN))
	dst = pgio.AppendUint32(dst, s.CatalogXmin)
	dst = pgio.AppendUint16(dst, bit(s.TwoPhase, slotTwoPhase)|bit(s.Failover, slotFailover)|
		bit(s.Synced, slotSynced)|bit(s.Active, slotActive))
	dst = pgio.AppendUint64(dst, uint64(s.TwoPhaseAt))
	dst = appendText(dst, s.InvalidationReason)
	dst = appendText(dst, s.WALStatus)
	dst = pgio.AppendInt64(dst, s.InactiveSince)
	return append(dst, byte(s.Readiness))
}

func (s *SlotState) decode(c *cursor) {
	s.Name = c.text()
	s.Plugin = c.text()
	s.Database = c.text()
	s.RestartLSN = c.lsn()
	s.ConfirmedFlushLSN = c.lsn()
	s.CatalogXmin = c.u32()
	flags := c.flags(slotFlagsKnown)
	s.TwoPhase = flags&slotTwoPhase != 0
	s.Failover = flags&slotFailover != 0
	s.Synced = flags&slotSynced != 0
	s.Active = flags&slotActive != 0
	s.TwoPhaseAt = c.lsn()
	s.InvalidationReason = c.text()
	s.WALStatus = c.text()
	s.InactiveSince = c.micros()
	s.Readiness = Readiness(c.u8())
	if s.Readiness > ReadinessNotReady {
		c.fail(ErrInvalid)
	}
}

func (p *PhysicalSlot) append(dst []byte) []byte {
	dst = appendText(dst, p.Name)
	dst = pgio.AppendUint16(dst, bit(p.Active, physicalActive)|bit(p.Temporary, physicalTemporary))
	dst = pgio.AppendUint64(dst, uint64(p.RestartLSN))
	dst = pgio.AppendUint32(dst, p.Xmin)
	return pgio.AppendUint32(dst, p.CatalogXmin)
}

func (p *PhysicalSlot) decode(c *cursor) {
	p.Name = c.text()
	flags := c.flags(physicalFlagsKnown)
	p.Active = flags&physicalActive != 0
	p.Temporary = flags&physicalTemporary != 0
	p.RestartLSN = c.lsn()
	p.Xmin = c.u32()
	p.CatalogXmin = c.u32()
}

func (o *OpenTransaction) append(dst []byte) []byte {
	dst = appendText(dst, o.Database)
	dst = pgio.AppendUint32(dst, o.Xid)
	dst = pgio.AppendInt32(dst, o.PID)
	return pgio.AppendInt64(dst, o.XactStart)
}

func (o *OpenTransaction) decode(c *cursor) {
	o.Database = c.text()
	o.Xid = c.u32()
	o.PID = int32(c.u32())
	o.XactStart = c.micros()
}

func (p *PreparedTransaction) append(dst []byte) []byte {
	dst = appendText(dst, p.Database)
	dst = appendText(dst, p.GID)
	dst = pgio.AppendUint32(dst, p.Xid)
	return pgio.AppendInt64(dst, p.Prepared)
}

func (p *PreparedTransaction) decode(c *cursor) {
	p.Database = c.text()
	p.GID = c.text()
	p.Xid = c.u32()
	p.Prepared = c.micros()
}

// appendRecords appends an Int32 count and each record behind its Int32
// length, so that a reader can skip the optional fields at a record's end.
func appendRecords[T any](dst []byte, list []T, put func(*T, []byte) []byte) []byte {
	dst = pgio.AppendUint32(dst, uint32(len(list)))
	for i := range list {
		at := len(dst)
		dst = put(&list[i], pgio.AppendUint32(dst, 0))
		pgio.SetInt32(dst[at:], int32(len(dst)-at-4))
	}
	return dst
}

func records[T any](c *cursor, minSize int, get func(*T, *cursor)) []T {
	n := c.count(minSize)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		s := c.sub()
		get(&list[i], &s)
		skipOptional(&s)
		if c.join(&s); c.err != nil {
			return nil
		}
	}
	return list
}

// skipOptional passes over the optional fields that end a record: Int16 tag,
// Int32 length, bytes. This version knows none.
func skipOptional(c *cursor) {
	for c.left() > 0 {
		c.u16()
		c.bytes(c.size())
	}
}

func (c *cursor) flags(known uint16) uint16 {
	f := c.u16()
	if f&^known != 0 {
		c.fail(ErrInvalid)
	}
	return f
}

func bit(v bool, mask uint16) uint16 {
	if v {
		return mask
	}
	return 0
}

// appendText appends an Int16 length and the bytes, at most maxText of them:
// the caller has checked.
func appendText(dst []byte, s string) []byte {
	dst = pgio.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}
