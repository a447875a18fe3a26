package protocol

// Types of pgoutput's messages (logicalproto.h, LogicalRepMsgType).
const (
	LogicalBegin            = 'B'
	LogicalCommit           = 'C'
	LogicalOrigin           = 'O'
	LogicalInsert           = 'I'
	LogicalUpdate           = 'U'
	LogicalDelete           = 'D'
	LogicalTruncate         = 'T'
	LogicalRelationMsg      = 'R'
	LogicalType             = 'Y'
	LogicalMessageMsg       = 'M'
	LogicalBeginPrepare     = 'b'
	LogicalPrepare          = 'P'
	LogicalCommitPrepared   = 'K'
	LogicalRollbackPrepared = 'r'
	LogicalStreamStart      = 'S'
	LogicalStreamStop       = 'E'
	LogicalStreamCommit     = 'c'
	LogicalStreamAbort      = 'A'
	LogicalStreamPrepare    = 'p'
)

var logicalNames = [256]string{
	LogicalBegin: "Begin", LogicalCommit: "Commit", LogicalOrigin: "Origin", LogicalInsert: "Insert",
	LogicalUpdate: "Update", LogicalDelete: "Delete", LogicalTruncate: "Truncate", LogicalRelationMsg: "Relation",
	LogicalType: "Type", LogicalMessageMsg: "Message", LogicalBeginPrepare: "BeginPrepare", LogicalPrepare: "Prepare",
	LogicalCommitPrepared: "CommitPrepared", LogicalRollbackPrepared: "RollbackPrepared",
	LogicalStreamStart: "StreamStart", LogicalStreamStop: "StreamStop", LogicalStreamCommit: "StreamCommit",
	LogicalStreamAbort: "StreamAbort", LogicalStreamPrepare: "StreamPrepare",
}

// LogicalMessage is one message of pgoutput, of protocol versions 1 to 4: the
// Data of an XLogData on a logical stream. Which fields a type has, and in which
// order, its comment says; the others are zero.
//
// A large transaction that is streamed while it goes on comes between
// StreamStart and StreamStop. Whatever describes data has an Int32 Xid behind
// the type byte there, marked [Xid].
type LogicalMessage struct {
	Type     byte
	Xid      uint32
	Subxid   uint32
	Flags    byte
	LSN      LSN // of the commit, prepare, message or origin
	EndLSN   LSN
	Time     int64 // microseconds since 2000-01-01 UTC
	EndTime  int64 // RollbackPrepared: of the rollback
	Name     string
	Content  []byte // of a Message; aliases what was decoded
	Relation LogicalRelation
	OIDs     []uint32 // of a Truncate

	OldKind byte // 'K' key, 'O' whole old row, 0 none
	Old     []LogicalColumn
	New     []LogicalColumn
}

// LogicalRelation describes a table.
type LogicalRelation struct {
	OID             uint32
	Namespace, Name string
	ReplicaIdentity byte
	Columns         []LogicalRelationColumn
}

// LogicalRelationColumn is one published column of a table.
type LogicalRelationColumn struct {
	Flags    byte // 1: part of the key
	Name     string
	TypeOID  uint32
	Modifier int32
}

// LogicalColumn is one value of a row.
type LogicalColumn struct {
	Kind  byte // 'n' NULL, 'u' TOASTed and unchanged, 't' text, 'b' binary
	Value []byte
}

// MessageName returns what the protocol calls the message.
func (m *LogicalMessage) MessageName() string { return logicalNames[m.Type] }

// Decode reads a message, its type byte included. streaming says that it stands
// between StreamStart and StreamStop. Values alias src.
func (m *LogicalMessage) Decode(src []byte, streaming bool) error {
	c := cursor{b: src}
	*m = LogicalMessage{Type: c.u8(), OIDs: m.OIDs[:0], Old: m.Old[:0], New: m.New[:0]}
	switch m.Type {
	case LogicalRelationMsg, LogicalType, LogicalMessageMsg, LogicalInsert, LogicalUpdate, LogicalDelete, LogicalTruncate:
		if streaming {
			m.Xid = c.u32()
		}
		m.decodeData(&c)
	default:
		m.decodeTransaction(&c, len(src))
	}
	return c.done("pgoutput " + m.MessageName())
}

// decodeTransaction reads what opens and ends transactions.
//
//	Begin             Int64 LSN | Int64 Time | Int32 Xid
//	Commit            Int8 Flags | Int64 LSN | Int64 EndLSN | Int64 Time
//	Origin            Int64 LSN | String Name
//	BeginPrepare      Int64 LSN | Int64 EndLSN | Int64 Time | Int32 Xid | String Name
//	Prepare, CommitPrepared, StreamPrepare
//	                  Int8 Flags | Int64 LSN | Int64 EndLSN | Int64 Time | Int32 Xid | String Name
//	RollbackPrepared  Int8 Flags | Int64 LSN | Int64 EndLSN | Int64 Time | Int64 EndTime | Int32 Xid | String Name
//	StreamStart       Int32 Xid | Int8 Flags
//	StreamStop
//	StreamCommit      Int32 Xid | Int8 Flags | Int64 LSN | Int64 EndLSN | Int64 Time
//	StreamAbort       Int32 Xid | Int32 Subxid, from protocol version 4 on with streaming parallel: | Int64 LSN | Int64 Time
func (m *LogicalMessage) decodeTransaction(c *cursor, length int) {
	switch m.Type {
	case LogicalBegin:
		m.LSN, m.Time, m.Xid = c.lsn(), c.micros(), c.u32()
	case LogicalCommit:
		m.Flags, m.LSN, m.EndLSN, m.Time = c.u8(), c.lsn(), c.lsn(), c.micros()
	case LogicalOrigin:
		m.LSN, m.Name = c.lsn(), string(c.cstring())
	case LogicalBeginPrepare:
		m.LSN, m.EndLSN, m.Time, m.Xid, m.Name = c.lsn(), c.lsn(), c.micros(), c.u32(), string(c.cstring())
	case LogicalPrepare, LogicalCommitPrepared, LogicalStreamPrepare:
		m.Flags, m.LSN, m.EndLSN, m.Time = c.u8(), c.lsn(), c.lsn(), c.micros()
		m.Xid, m.Name = c.u32(), string(c.cstring())
	case LogicalRollbackPrepared:
		m.Flags, m.LSN, m.EndLSN, m.Time, m.EndTime = c.u8(), c.lsn(), c.lsn(), c.micros(), c.micros()
		m.Xid, m.Name = c.u32(), string(c.cstring())
	case LogicalStreamStart:
		m.Xid, m.Flags = c.u32(), c.u8()
	case LogicalStreamStop:
	case LogicalStreamCommit:
		m.Xid, m.Flags, m.LSN, m.EndLSN, m.Time = c.u32(), c.u8(), c.lsn(), c.lsn(), c.micros()
	case LogicalStreamAbort:
		m.Xid, m.Subxid = c.u32(), c.u32()
		if length > 1+4+4 {
			m.LSN, m.Time = c.lsn(), c.micros()
		}
	default:
		c.fail(ErrType)
	}
}

// decodeData reads what describes data.
//
//	Relation  [Xid] | Int32 OID | String Namespace | String Name | Int8 ReplicaIdentity | Int16 n |
//	          n x (Int8 Flags | String Name | Int32 TypeOID | Int32 Modifier)
//	Type      [Xid] | Int32 OID | String Namespace | String Name
//	Message   [Xid] | Int8 Flags | Int64 LSN | String Name | Int32 n | Byte[n] Content
//	Insert    [Xid] | Int32 OID | Byte1('N') | row
//	Update    [Xid] | Int32 OID | optionally Byte1('K' or 'O') | row, then | Byte1('N') | row
//	Delete    [Xid] | Int32 OID | Byte1('K' or 'O') | row
//	Truncate  [Xid] | Int32 n | Int8 Flags | n x Int32 OID
//	row       Int16 n | n x (Byte1 Kind, and for 't' and 'b' | Int32 length | Byte[length])
func (m *LogicalMessage) decodeData(c *cursor) {
	switch m.Type {
	case LogicalMessageMsg:
		m.Flags, m.LSN, m.Name = c.u8(), c.lsn(), string(c.cstring())
		m.Content = c.bytes(c.size())
		return
	case LogicalTruncate:
		n := c.u32()
		m.Flags = c.u8()
		if c.err == nil && uint64(n) > uint64(c.left()/4) {
			c.fail(ErrTruncated)
		}
		for i := uint32(0); i < n && c.err == nil; i++ {
			m.OIDs = append(m.OIDs, c.u32())
		}
		return
	}
	m.Relation.OID = c.u32()
	switch m.Type {
	case LogicalRelationMsg, LogicalType:
		m.Relation.Namespace, m.Relation.Name = string(c.cstring()), string(c.cstring())
		if m.Type == LogicalRelationMsg {
			m.Relation.decodeColumns(c)
		}
	case LogicalInsert:
		m.decodeNew(c, c.u8())
	case LogicalUpdate, LogicalDelete:
		kind := c.u8()
		if kind == 'K' || kind == 'O' {
			m.OldKind, m.Old = kind, decodeLogicalRow(c, m.Old)
			if m.Type == LogicalDelete {
				return
			}
			kind = c.u8()
		}
		if m.Type == LogicalDelete {
			c.fail(ErrType)
		}
		m.decodeNew(c, kind)
	}
}

func (m *LogicalMessage) decodeNew(c *cursor, kind byte) {
	if kind != 'N' {
		c.fail(ErrType)
	}
	m.New = decodeLogicalRow(c, m.New)
}

func (r *LogicalRelation) decodeColumns(c *cursor) {
	r.ReplicaIdentity = c.u8()
	for range c.u16() {
		column := LogicalRelationColumn{Flags: c.u8(), Name: string(c.cstring()), TypeOID: c.u32(), Modifier: int32(c.u32())}
		if c.err != nil {
			return
		}
		r.Columns = append(r.Columns, column)
	}
}

func decodeLogicalRow(c *cursor, row []LogicalColumn) []LogicalColumn {
	for range c.u16() {
		column := LogicalColumn{Kind: c.u8()}
		switch column.Kind {
		case 'n', 'u':
		case 't', 'b':
			column.Value = c.bytes(c.size())
		default:
			c.fail(ErrType)
		}
		if c.err != nil {
			break
		}
		row = append(row, column)
	}
	return row
}
