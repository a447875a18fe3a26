package wal

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/slotferry/slotferry/protocol"
)

// RecordHeaderLen is SizeOfXLogRecord (xlogrecord.h).
const RecordHeaderLen = 24

// maxRecordLen is XLogRecordMaxSize (xlogrecord.h).
const maxRecordLen = 1020 << 20

// crcAt is offsetof(XLogRecord, xl_crc).
const crcAt = 20

// Record is the header of one WAL record, and where it lies.
type Record struct {
	LSN      protocol.LSN // of its first byte
	End      protocol.LSN // where the next one begins (xlogreader.c, NextRecPtr); 0/0 while it is not whole
	Prev     protocol.LSN
	TotalLen uint32 // header included, page headers between not
	Xid      uint32
	Info     uint8
	Rmid     uint8

	// Continued is set when it began in an earlier call of Walk.
	Continued bool
	// Left is how many bytes of it are still to come; 0 when it is whole.
	Left uint32
	// BadCRC is set when its bytes do not have the checksum they should have.
	BadCRC bool
	// Abandoned is set when it will never be whole: the upstream crashed while it
	// wrote it (XLP_FIRST_IS_OVERWRITE_CONTRECORD), or bytes are missing.
	Abandoned bool
}

// decode reads a header.
func (r *Record) decode(b *[RecordHeaderLen]byte) {
	r.TotalLen = binary.LittleEndian.Uint32(b[0:])
	r.Xid = binary.LittleEndian.Uint32(b[4:])
	r.Prev = protocol.LSN(binary.LittleEndian.Uint64(b[8:]))
	r.Info, r.Rmid = b[16], b[17]
}

// plausible reports whether this can be a header (xlogreader.c,
// ValidXLogRecordHeader).
func (r *Record) plausible() bool {
	return r.TotalLen >= RecordHeaderLen && r.TotalLen <= maxRecordLen && r.Prev < r.LSN &&
		(r.Rmid <= rmMaxBuiltin || r.Rmid >= rmMinCustom)
}

// isSwitch reports whether the rest of the segment is empty behind this record
// (xlogreader.c, XLogDecodeNextRecord).
func (r *Record) isSwitch() bool { return r.Rmid == rmXLOG && r.Info&0xF0 == 0x40 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// finishCRC adds a header to the checksum of what is behind it, as
// XLogRecordAssemble (xloginsert.c) does, and compares.
func finishCRC(body uint32, header *[RecordHeaderLen]byte) bool {
	return crc32.Update(body, castagnoli, header[:crcAt]) == binary.LittleEndian.Uint32(header[crcAt:])
}
