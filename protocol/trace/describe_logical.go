package trace

import (
	"unicode/utf8"

	"github.com/slotferry/slotferry/protocol"
)

// describeLogical shows a logical decoding message.
func (m *Message) describeLogical(e *encoder) {
	x := &m.s.xlog
	e.lsn("start", x.DataStart)
	e.lsn("wal_end", x.WALEnd)
	m.sent(e, x.SendTime)
	l := &m.s.logical
	switch {
	case l.Type != 0 && len(x.Data) > 0:
		e.str("pgoutput", m.Detail)
		m.describePgoutput(e, l)
	case utf8.Valid(x.Data) && m.Missing == 0:
		e.str("output", string(x.Data))
	default:
		e.hex("output", x.Data, maxHex)
	}
}

func (m *Message) describePgoutput(e *encoder, l *protocol.LogicalMessage) {
	if l.Xid != 0 {
		e.num("xid", uint64(l.Xid))
	}
	switch l.Type {
	case protocol.LogicalStreamStart:
		e.flag("first", l.Flags == 1)
	case protocol.LogicalStreamStop:
	case protocol.LogicalStreamAbort:
		e.num("subxid", uint64(l.Subxid))
		if l.LSN != 0 {
			e.lsn("abort_lsn", l.LSN)
			e.micros("abort_time", l.Time)
		}
	case protocol.LogicalBegin:
		e.lsn("final_lsn", l.LSN)
		e.micros("commit_time", l.Time)
	case protocol.LogicalOrigin:
		e.lsn("origin_lsn", l.LSN)
		e.str("origin", l.Name)
	case protocol.LogicalMessageMsg:
		e.flag("transactional", l.Flags == 1)
		e.lsn("lsn", l.LSN)
		e.str("prefix", l.Name)
		e.str("content", string(l.Content))
	case protocol.LogicalRelationMsg:
		m.describeRelation(e, &l.Relation)
	case protocol.LogicalType:
		e.num("oid", uint64(l.Relation.OID))
		e.str("type", l.Relation.Namespace+"."+l.Relation.Name)
	case protocol.LogicalTruncate:
		e.flag("cascade", l.Flags&1 != 0)
		e.flag("restart_identity", l.Flags&2 != 0)
		e.list("relations")
		for _, oid := range l.OIDs {
			m.relation(e, "", oid)
		}
		e.end(']')
	case protocol.LogicalInsert, protocol.LogicalUpdate, protocol.LogicalDelete:
		m.relation(e, "relation", l.Relation.OID)
		if l.OldKind != 0 {
			m.describeTuple(e, map[byte]string{'K': "key", 'O': "old"}[l.OldKind], l.Relation.OID, l.Old)
		}
		if l.Type != protocol.LogicalDelete {
			m.describeTuple(e, "new", l.Relation.OID, l.New)
		}
	default: // ends of transactions
		m.describeCommit(e, l)
	}
}

func (m *Message) describeCommit(e *encoder, l *protocol.LogicalMessage) {
	e.lsn("lsn", l.LSN)
	e.lsn("end_lsn", l.EndLSN)
	e.micros("time", l.Time)
	if l.Type == protocol.LogicalRollbackPrepared {
		e.micros("rollback_time", l.EndTime)
	}
	if l.Name != "" {
		e.str("gid", l.Name)
	}
}

func (m *Message) describeRelation(e *encoder, r *protocol.LogicalRelation) {
	e.num("oid", uint64(r.OID))
	e.str("relation", r.Namespace+"."+r.Name)
	e.str("replica_identity", string(rune(r.ReplicaIdentity)))
	e.list("columns")
	for _, c := range r.Columns {
		e.object("")
		e.str("name", c.Name)
		e.num("type_oid", uint64(c.TypeOID))
		e.int("modifier", int64(c.Modifier))
		e.flag("key", c.Flags&1 != 0)
		e.end('}')
	}
	e.end(']')
}

// relation writes a table's name, if a Relation message told it, or else its
// OID.
func (m *Message) relation(e *encoder, name string, oid uint32) {
	if r, ok := m.s.relations[oid]; ok {
		e.str(name, r.Namespace+"."+r.Name)
		return
	}
	e.num(name, uint64(oid))
}

// describeTuple shows a row by the names of its columns, where they are known.
func (m *Message) describeTuple(e *encoder, name string, oid uint32, row []protocol.LogicalColumn) {
	columns := m.s.relations[oid].Columns
	e.object(name)
	for i, v := range row {
		column := "column" + itoa(i+1)
		if len(columns) == len(row) {
			column = columns[i].Name
		}
		switch v.Kind {
		case 'n':
			m.parameterNull(e, column)
		case 'u':
			m.parameter(e, column, "(unchanged TOAST value)")
		case 'b':
			m.parameter(e, column, hexText(v.Value))
		default:
			m.parameter(e, column, string(v.Value))
		}
	}
	e.end('}')
}
