package protocol

import "github.com/jackc/pgio"

// HotStandbyFeedback tells a walsender which rows the standby's queries and
// slots still need. A relay forwards it byte for byte.
//
//	Byte1('h') | Int64 SendTime | Int32 Xmin | Int32 XminEpoch | Int32 CatalogXmin | Int32 CatalogXminEpoch
type HotStandbyFeedback struct {
	SendTime         int64  // microseconds since 2000-01-01 00:00:00 UTC
	Xmin             uint32 // oldest xid the standby's queries need; 0 when none or when feedback is off
	XminEpoch        uint32
	CatalogXmin      uint32 // oldest xid whose catalog rows the standby's slots need; 0 when none
	CatalogXminEpoch uint32
}

// Decode reads a message body, without its type byte.
func (m *HotStandbyFeedback) Decode(src []byte) error {
	c := cursor{b: src}
	m.SendTime = c.micros()
	m.Xmin = c.u32()
	m.XminEpoch = c.u32()
	m.CatalogXmin = c.u32()
	m.CatalogXminEpoch = c.u32()
	return c.done("HotStandbyFeedback")
}

// Append appends the type byte and the body to dst.
func (m *HotStandbyFeedback) Append(dst []byte) []byte {
	dst = append(dst, MsgHotStandbyFeedback)
	dst = pgio.AppendInt64(dst, m.SendTime)
	dst = pgio.AppendUint32(dst, m.Xmin)
	dst = pgio.AppendUint32(dst, m.XminEpoch)
	dst = pgio.AppendUint32(dst, m.CatalogXmin)
	return pgio.AppendUint32(dst, m.CatalogXminEpoch)
}
