package protocol

import "github.com/jackc/pgio"

// StandbyStatusUpdate tells a walsender how far a walreceiver has come. A
// relay forwards it byte for byte and never composes one: a false Flush makes
// the primary remove WAL that the standby lacks.
//
//	Byte1('r') | Int64 Write | Int64 Flush | Int64 Apply | Int64 SendTime | Byte1 ReplyRequested
type StandbyStatusUpdate struct {
	Write          LSN   // end of WAL received and written, plus one
	Flush          LSN   // end of WAL flushed to disk, plus one
	Apply          LSN   // end of WAL applied, plus one
	SendTime       int64 // microseconds since 2000-01-01 00:00:00 UTC
	ReplyRequested bool  // the walreceiver wants a PrimaryKeepalive at once
}

// Decode reads a message body, without its type byte.
func (m *StandbyStatusUpdate) Decode(src []byte) error {
	c := cursor{b: src}
	m.Write = c.lsn()
	m.Flush = c.lsn()
	m.Apply = c.lsn()
	m.SendTime = c.micros()
	m.ReplyRequested = c.flag()
	return c.done("StandbyStatusUpdate")
}

// Append appends the type byte and the body to dst.
func (m *StandbyStatusUpdate) Append(dst []byte) []byte {
	dst = append(dst, MsgStandbyStatusUpdate)
	dst = pgio.AppendUint64(dst, uint64(m.Write))
	dst = pgio.AppendUint64(dst, uint64(m.Flush))
	dst = pgio.AppendUint64(dst, uint64(m.Apply))
	dst = pgio.AppendInt64(dst, m.SendTime)
	return appendFlag(dst, m.ReplyRequested)
}
