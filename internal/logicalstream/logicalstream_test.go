package logicalstream

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/protocol"
)

func TestRead(t *testing.T) {
	data := func(b []byte) pgproto3.BackendMessage { return &pgproto3.CopyData{Data: b} }
	x, k, err := Read(data((&protocol.XLogData{DataStart: 7, Data: []byte("row")}).Append(nil)))
	if err != nil || k != nil || x == nil || x.DataStart != 7 || string(x.Data) != "row" {
		t.Errorf("XLogData: %+v, %+v, %v", x, k, err)
	}
	x, k, err = Read(data((&protocol.PrimaryKeepalive{WALEnd: 9}).Append(nil)))
	if err != nil || x != nil || k == nil || k.WALEnd != 9 {
		t.Errorf("keepalive: %+v, %+v, %v", x, k, err)
	}
	if x, k, err := Read(&pgproto3.NoticeResponse{}); x != nil || k != nil || err != nil {
		t.Errorf("a notice: %+v, %+v, %v", x, k, err)
	}
	for name, msg := range map[string]pgproto3.BackendMessage{
		"the end": &pgproto3.CopyDone{}, "an error": &pgproto3.ErrorResponse{Code: "57P01"}, "nothing": data(nil),
		"an unknown message": data([]byte{'?'}), "half an XLogData": data([]byte{'w', 0}), "half a keepalive": data([]byte{'k'}),
	} {
		if _, _, err := Read(msg); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
