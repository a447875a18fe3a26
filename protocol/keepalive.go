package protocol

import "github.com/jackc/pgio"

// PrimaryKeepalive tells a walreceiver that the walsender lives.
//
//	Byte1('k') | Int64 WALEnd | Int64 SendTime | Byte1 ReplyRequested
type PrimaryKeepalive struct {
	WALEnd         LSN   // the walsender's current end of WAL
	SendTime       int64 // microseconds since 2000-01-01 00:00:00 UTC
	ReplyRequested bool  // the walsender wants a StandbyStatusUpdate at once
}

// Decode reads a message body, without its type byte.
func (m *PrimaryKeepalive) Decode(src []byte) error {
	c := cursor{b: src}
	m.WALEnd = c.lsn()
	m.SendTime = c.micros()
	m.ReplyRequested = c.flag()
	return c.done("PrimaryKeepalive")
}

// Append appends the type byte and the body to dst.
func (m *PrimaryKeepalive) Append(dst []byte) []byte {
	dst = append(dst, MsgPrimaryKeepalive)
	dst = pgio.AppendUint64(dst, uint64(m.WALEnd))
	dst = pgio.AppendInt64(dst, m.SendTime)
	return appendFlag(dst, m.ReplyRequested)
}

func appendFlag(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}
