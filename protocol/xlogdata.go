package protocol

import "github.com/jackc/pgio"

// Types of the messages inside CopyData on a streaming replication connection.
const (
	MsgXLogData            = 'w' // walsender to walreceiver
	MsgPrimaryKeepalive    = 'k' // walsender to walreceiver
	MsgStandbyStatusUpdate = 'r' // walreceiver to walsender
	MsgHotStandbyFeedback  = 'h' // walreceiver to walsender
)

// XLogData carries a run of WAL from a walsender to a walreceiver, or, with
// DataStart at InvalidLSN on a physical stream, a slot message.
//
//	Byte1('w') | Int64 DataStart | Int64 WALEnd | Int64 SendTime | Byte[n] Data
type XLogData struct {
	DataStart LSN   // location of Data[0]; InvalidLSN marks a slot message
	WALEnd    LSN   // the walsender's current end of WAL
	SendTime  int64 // microseconds since 2000-01-01 00:00:00 UTC
	Data      []byte
}

// XLogDataHeaderLen is the length of an XLogData before its Data, type byte
// included.
const XLogDataHeaderLen = 25

// Decode reads a message body, without its type byte. Data aliases src.
func (m *XLogData) Decode(src []byte) error {
	c := cursor{b: src}
	m.DataStart = c.lsn()
	m.WALEnd = c.lsn()
	m.SendTime = c.micros()
	m.Data = c.rest()
	return c.done("XLogData")
}

// Append appends the type byte and the body to dst.
func (m *XLogData) Append(dst []byte) []byte {
	dst = append(dst, MsgXLogData)
	dst = pgio.AppendUint64(dst, uint64(m.DataStart))
	dst = pgio.AppendUint64(dst, uint64(m.WALEnd))
	dst = pgio.AppendInt64(dst, m.SendTime)
	return append(dst, m.Data...)
}
