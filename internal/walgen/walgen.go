// Package walgen makes write-ahead log for tests and benchmarks: pages and
// records that are right in form, with contents that mean nothing.
package walgen

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/slotferry/slotferry/protocol"
)

const (
	pageSize    = 8192
	segmentSize = 16 << 20
	magic18     = 0xD118 // XLOG_PAGE_MAGIC of PostgreSQL 18
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer appends records to WAL that begins at a segment's begin.
type Writer struct {
	start protocol.LSN
	prev  protocol.LSN
	b     []byte
}

// New returns a Writer of WAL that begins at start, a multiple of 16 MB.
func New(start protocol.LSN) *Writer { return &Writer{start: start} }

// Bytes returns the WAL so far, and Start where it begins.
func (w *Writer) Bytes() []byte { return w.b }

// Start returns where the WAL begins.
func (w *Writer) Start() protocol.LSN { return w.start }

// End returns where the next record begins.
func (w *Writer) End() protocol.LSN { return w.start + protocol.LSN(len(w.b)) }

// Record appends a record with n bytes behind its header, and returns where it
// lies.
func (w *Writer) Record(rmid, info byte, xid uint32, n int) protocol.LSN {
	w.page(0)
	at := w.End()
	rec := make([]byte, 24+n)
	binary.LittleEndian.PutUint32(rec[0:], uint32(len(rec)))
	binary.LittleEndian.PutUint32(rec[4:], xid)
	binary.LittleEndian.PutUint64(rec[8:], uint64(w.prev))
	rec[16], rec[17] = info, rmid
	for i := range n {
		rec[24+i] = byte(i * 7)
	}
	sum := crc32.Checksum(rec[24:], castagnoli)
	binary.LittleEndian.PutUint32(rec[20:], crc32.Update(sum, castagnoli, rec[:20]))
	for left := rec; len(left) > 0; {
		w.page(len(left))
		room := pageSize - len(w.b)%pageSize
		m := min(room, len(left))
		w.b = append(w.b, left[:m]...)
		left = left[m:]
	}
	for len(w.b)%8 != 0 {
		w.b = append(w.b, 0)
	}
	w.prev = at
	return at
}

// page writes a page's header, if one begins here. left is how much of a record
// goes on behind it.
func (w *Writer) page(left int) {
	if len(w.b)%pageSize != 0 {
		return
	}
	var h [40]byte
	size, info := 24, uint16(0)
	if w.End()%segmentSize == 0 {
		size, info = 40, 2
		binary.LittleEndian.PutUint64(h[24:], 7)
		binary.LittleEndian.PutUint32(h[32:], segmentSize)
		binary.LittleEndian.PutUint32(h[36:], pageSize)
	}
	if left > 0 {
		info |= 1
		binary.LittleEndian.PutUint32(h[16:], uint32(left))
	}
	binary.LittleEndian.PutUint16(h[0:], magic18)
	binary.LittleEndian.PutUint16(h[2:], info)
	binary.LittleEndian.PutUint32(h[4:], 1)
	binary.LittleEndian.PutUint64(h[8:], uint64(w.End()))
	w.b = append(w.b, h[:size]...)
}
