package main

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pglogrepl"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
)

// TestPgoutputIsReadAsPglogreplReadsIt decodes a real stream, streaming
// transactions included, with both. (pglogrepl knows neither two-phase commits
// nor parallel streaming.)
func TestPgoutputIsReadAsPglogreplReadsIt(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		r := record(t, major)
		clustertest.Exec(t, r.primary, "postgres", "CREATE PUBLICATION p FOR ALL TABLES")
		conn := r.connect(t, "replication=database")
		if _, err := conn.Exec(t.Context(), "CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput").ReadAll(); err != nil {
			t.Fatal(err)
		}
		r.work(t)
		end, err := protocol.ParseLSN(clustertest.Value[string](t, r.primary, "postgres", "SELECT pg_current_wal_flush_lsn()::text"))
		if err != nil {
			t.Fatal(err)
		}
		streaming, theirs := false, false
		seen := map[string]int{}
		stream(t, conn, "START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '2', publication_names 'p', streaming 'on', messages 'true')",
			func(x *protocol.XLogData) bool {
				if len(x.Data) == 0 {
					return false
				}
				var m protocol.LogicalMessage
				if err := m.Decode(x.Data, streaming); err != nil {
					t.Fatal(err)
				}
				want, err := pglogrepl.ParseV2(x.Data, theirs)
				if err != nil {
					t.Fatalf("pglogrepl: %v", err)
				}
				if got, want := described(&m), theirsDescribed(want); got != want {
					t.Fatalf("got\n%s\npglogrepl has\n%s", got, want)
				}
				seen[m.MessageName()]++
				switch m.Type {
				case protocol.LogicalStreamStart:
					streaming, theirs = true, true
				case protocol.LogicalStreamStop:
					streaming, theirs = false, false
				}
				return m.Type == protocol.LogicalCommit && x.DataStart >= end-5000
			})
		for _, name := range []string{"Begin", "Commit", "Relation", "Type", "Insert", "Update", "Delete", "Truncate", "Message", "StreamStart",
			"StreamStop", "StreamCommit", "StreamAbort"} {
			if seen[name] == 0 {
				t.Errorf("no %s was seen: %v", name, seen)
			}
		}
	})
}

func described(m *protocol.LogicalMessage) string {
	row := func(columns []protocol.LogicalColumn) string {
		var b bytes.Buffer
		for _, c := range columns {
			fmt.Fprintf(&b, "%c%q ", c.Kind, c.Value)
		}
		return b.String()
	}
	switch m.Type {
	case protocol.LogicalRelationMsg:
		s := fmt.Sprint("Relation ", m.Xid, m.Relation.OID, m.Relation.Namespace, m.Relation.Name, m.Relation.ReplicaIdentity)
		for _, c := range m.Relation.Columns {
			s += fmt.Sprint(" ", c.Flags, c.Name, c.TypeOID, c.Modifier)
		}
		return s
	case protocol.LogicalType:
		return fmt.Sprint("Type ", m.Xid, m.Relation.OID, m.Relation.Namespace, m.Relation.Name)
	case protocol.LogicalTruncate:
		return fmt.Sprint("Truncate ", m.Xid, m.Flags, slices.Clone(m.OIDs))
	case protocol.LogicalInsert, protocol.LogicalUpdate, protocol.LogicalDelete:
		return fmt.Sprint(m.MessageName(), " ", m.Xid, m.Relation.OID, m.OldKind, row(m.Old), "|", row(m.New))
	case protocol.LogicalMessageMsg:
		return fmt.Sprintf("Message %d %d %d %q %q", m.Xid, m.Flags, m.LSN, m.Name, m.Content)
	case protocol.LogicalStreamAbort:
		return fmt.Sprint("StreamAbort ", m.Xid, m.Subxid)
	default:
		return fmt.Sprint(m.MessageName(), " ", m.Xid, m.Flags, uint64(m.LSN), uint64(m.EndLSN), m.Time)
	}
}

func theirsDescribed(message pglogrepl.Message) string {
	row := func(t *pglogrepl.TupleData) string {
		var b bytes.Buffer
		if t != nil {
			for _, c := range t.Columns {
				fmt.Fprintf(&b, "%c%q ", c.DataType, c.Data)
			}
		}
		return b.String()
	}
	micros := func(m interface{ UnixMicro() int64 }) int64 { return m.UnixMicro() - 946684800000000 }
	switch m := message.(type) {
	case *pglogrepl.BeginMessage:
		return fmt.Sprint("Begin ", m.Xid, 0, uint64(m.FinalLSN), 0, micros(m.CommitTime))
	case *pglogrepl.CommitMessage:
		return fmt.Sprint("Commit ", 0, m.Flags, uint64(m.CommitLSN), uint64(m.TransactionEndLSN), micros(m.CommitTime))
	case *pglogrepl.RelationMessageV2:
		s := fmt.Sprint("Relation ", m.Xid, m.RelationID, m.Namespace, m.RelationName, m.ReplicaIdentity)
		for _, c := range m.Columns {
			s += fmt.Sprint(" ", c.Flags, c.Name, c.DataType, c.TypeModifier)
		}
		return s
	case *pglogrepl.TypeMessageV2:
		return fmt.Sprint("Type ", m.Xid, m.DataType, m.Namespace, m.Name)
	case *pglogrepl.TruncateMessageV2:
		return fmt.Sprint("Truncate ", m.Xid, m.Option, m.RelationIDs)
	case *pglogrepl.InsertMessageV2:
		return fmt.Sprint("Insert ", m.Xid, m.RelationID, 0, "|", row(m.Tuple))
	case *pglogrepl.UpdateMessageV2:
		return fmt.Sprint("Update ", m.Xid, m.RelationID, m.OldTupleType, row(m.OldTuple), "|", row(m.NewTuple))
	case *pglogrepl.DeleteMessageV2:
		return fmt.Sprint("Delete ", m.Xid, m.RelationID, m.OldTupleType, row(m.OldTuple), "|")
	case *pglogrepl.LogicalDecodingMessageV2:
		return fmt.Sprintf("Message %d %d %d %q %q", m.Xid, map[bool]int{true: 1}[m.Transactional], uint64(m.LSN), m.Prefix, m.Content)
	case *pglogrepl.StreamStartMessageV2:
		return fmt.Sprint("StreamStart ", m.Xid, m.FirstSegment, 0, 0, 0)
	case *pglogrepl.StreamStopMessageV2:
		return "StreamStop 0 0 0 0 0"
	case *pglogrepl.StreamCommitMessageV2:
		return fmt.Sprint("StreamCommit ", m.Xid, m.Flags, uint64(m.CommitLSN), uint64(m.TransactionEndLSN), micros(m.CommitTime))
	case *pglogrepl.StreamAbortMessageV2:
		return fmt.Sprint("StreamAbort ", m.Xid, m.SubXid)
	default:
		return fmt.Sprintf("%T", message)
	}
}
