package main

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/protocol"
)

// Rows count when their transaction is whole, and a keepalive moves the position
// only between transactions.
func TestSubscriptionTakesWholeTransactions(t *testing.T) {
	got := ""
	s := &subscription{took: func(rows []int64, at protocol.LSN) { got += fmt.Sprintf("%v@%d ", rows, uint64(at)) }}
	u64 := func(b []byte, v ...uint64) []byte {
		for _, x := range v {
			b = binary.BigEndian.AppendUint64(b, x)
		}
		return b
	}
	begin := append(u64([]byte{protocol.LogicalBegin}, 8, 0), 0, 0, 0, 9)
	insert := func(id string) []byte {
		b := []byte{protocol.LogicalInsert, 0, 0, 0, 1, 'N', 0, 1, 't', 0, 0, 0, byte(len(id))}
		return append(b, id...)
	}
	commit := u64([]byte{protocol.LogicalCommit, 0}, 7, 8, 0)
	data := func(body []byte) []byte { return (&protocol.XLogData{Data: body}).Append(nil) }
	keepalive := func(at protocol.LSN) []byte { return (&protocol.PrimaryKeepalive{WALEnd: at}).Append(nil) }
	for _, message := range [][]byte{
		keepalive(5), data(begin), data(insert("41")), keepalive(99), data(insert("42")), data(commit), keepalive(12),
		data(begin), data(insert("43")), // never committed
	} {
		if err := s.take(&pgproto3.CopyData{Data: message}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "[]@5 [41 42]@8 []@12 "; got != want {
		t.Errorf("took %q, want %q", got, want)
	}
	if err := s.take(&pgproto3.CopyData{Data: data(insert("x"))}); err == nil {
		t.Error("a broken row is no error")
	}
}
