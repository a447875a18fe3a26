package inspect

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/slotferry/slotferry/internal/walgen"
	"github.com/slotferry/slotferry/protocol"
)

// benchCapture returns a capture of a physical stream: size bytes of WAL, with
// records as pgbench writes them, in XLogData of 128 KiB.
func benchCapture(size int) []byte {
	w := walgen.New(0x10000000)
	for n := 0; len(w.Bytes()) < size; n++ {
		w.Record(10, 0x40, uint32(1000+n/7), 50+n%5*30)
		w.Record(11, 0, uint32(1000+n/7), 40)
		if n%40 == 0 {
			w.Record(10, 0, uint32(1000+n/7), 4000)
		}
	}
	now := int64(800000000000000)
	h := protocol.CaptureHeader{Created: now}
	b := h.Append(nil)
	add := func(kind protocol.CaptureKind, payload []byte) {
		now += 100
		rec := protocol.CaptureRecord{Kind: kind, Time: now, Connection: 1, Payload: payload}
		b = rec.Append(b)
	}
	startup := protocol.StartupMessage{Version: protocol.ProtocolVersion3, Parameters: []protocol.StartupParameter{
		{Name: "user", Value: "standby"}, {Name: "replication", Value: "true"}}}
	add(protocol.CaptureOpened, (&protocol.CaptureEnds{Downstream: "a", Upstream: "b"}).Append(nil))
	add(protocol.CaptureUpstream, startup.Append(nil))
	add(protocol.CaptureDownstream, protocol.AppendReadyForQuery([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0}))
	query := fmt.Sprintf("START_REPLICATION PHYSICAL %s\x00", w.Start())
	add(protocol.CaptureUpstream, append([]byte{'Q', 0, 0, 0, byte(len(query) + 4)}, query...))
	add(protocol.CaptureDownstream, protocol.AppendCopyBothResponse(nil))
	var stream []byte
	for at := 0; at < len(w.Bytes()); at += 128 << 10 {
		end := min(at+128<<10, len(w.Bytes()))
		x := protocol.XLogData{DataStart: w.Start() + protocol.LSN(at), WALEnd: w.End(), SendTime: now, Data: w.Bytes()[at:end]}
		stream = protocol.AppendCopyData(stream, x.Append(nil))
	}
	for len(stream) > 0 { // as a relay reads it: in buffers, not in messages
		n := min(len(stream), 100<<10)
		add(protocol.CaptureDownstream, stream[:n])
		stream = stream[n:]
	}
	add(protocol.CaptureClosed, nil)
	return b
}

// BenchmarkInspect inspects a capture whose every message and WAL record is
// printed, then with the records counted only, then to a summary.
func BenchmarkInspect(b *testing.B) {
	data := benchCapture(64 << 20)
	for _, bench := range []struct {
		name string
		o    Options
	}{
		{"text", Options{At: -1}},
		{"json", Options{At: -1, JSON: true}},
		{"no-records", Options{At: -1, NoRecords: true}},
		{"summary", Options{At: -1, Summary: true}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Run(b.Context(), bytes.NewReader(data), io.Discard, bench.o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
