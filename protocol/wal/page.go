package wal

import (
	"encoding/binary"

	"github.com/slotferry/slotferry/protocol"
)

const (
	shortHeaderLen = 24 // SizeOfXLogShortPHD
	longHeaderLen  = 40 // SizeOfXLogLongPHD

	firstIsContrecord          = 0x0001 // XLP_FIRST_IS_CONTRECORD
	longHeader                 = 0x0002 // XLP_LONG_HEADER
	firstIsOverwriteContrecord = 0x0008 // XLP_FIRST_IS_OVERWRITE_CONTRECORD
	allFlags                   = 0x000F // XLP_ALL_FLAGS

	defaultPageSize    = 8192
	defaultSegmentSize = 16 << 20
)

// majors are the versions behind XLOG_PAGE_MAGIC (xlog_internal.h).
var majors = map[uint16]int{0xD106: 13, 0xD10D: 14, 0xD110: 15, 0xD113: 16, 0xD116: 17, 0xD118: 18}

// pageHeader is XLogPageHeaderData, and the rest of XLogLongPageHeaderData.
type pageHeader struct {
	magic, info       uint16
	timeline          uint32
	pageAddr          protocol.LSN
	remLen            uint32
	segSize, pageSize uint32 // of a long header
}

func (h *pageHeader) decode(b []byte) {
	h.magic = binary.LittleEndian.Uint16(b[0:])
	h.info = binary.LittleEndian.Uint16(b[2:])
	h.timeline = binary.LittleEndian.Uint32(b[4:])
	h.pageAddr = protocol.LSN(binary.LittleEndian.Uint64(b[8:]))
	h.remLen = binary.LittleEndian.Uint32(b[16:])
	if len(b) >= longHeaderLen {
		h.segSize = binary.LittleEndian.Uint32(b[32:])
		h.pageSize = binary.LittleEndian.Uint32(b[36:])
	}
}

// plausible reports whether this can be the header of the page at addr
// (xlogreader.c, XLogReaderValidatePageHeader).
func (h *pageHeader) plausible(addr protocol.LSN) bool {
	return h.magic>>8 == 0xD1 && h.info&^allFlags == 0 && h.pageAddr == addr
}

func powerOfTwo(n uint32) bool { return n != 0 && n&(n-1) == 0 }
