package relay

import "github.com/slotferry/slotferry/protocol"

// A non-transactional logical message takes effect at a subscriber without a
// commit, and its position in the stream is where its WAL record begins
// (logicalmsg_decode, decode.c): standbys that have flushed up to there need not
// have it. It is the one message whose content hold-back has to look at.

// Sizes in WAL, with the usual XLOG_BLCKSZ.
const (
	walPage          = 8192
	walPageHeader    = 24 // SizeOfXLogShortPHD; 40 on the first page of a segment
	walRecordHeader  = 24 // SizeOfXLogRecord
	walMessageHeader = 24 // SizeOfLogicalMessage
)

// pgoutputMessageLen is the length of a Message of pgoutput beside its prefix and
// content: type, flags, LSN, length of the content.
const pgoutputMessageLen = 1 + 1 + 8 + 4

// messageEnd returns where the record of a logical message ends that begins at
// start, or a little behind it. n is the length of prefix, with its terminator, and
// content. A record that names a replication origin or a top-level transaction is 8
// bytes longer, which does not matter: what a standby has flushed ends with a
// record, or a page. Where those bytes may reach into the next page the answer is
// behind them.
func messageEnd(start protocol.LSN, n int) protocol.LSN {
	length := walRecordHeader + 2 + walMessageHeader + n
	if walMessageHeader+n > 255 {
		length += 3 // XLR_BLOCK_ID_DATA_LONG
	}
	const align = 8
	left := uint64((length + align - 1) / align * align)
	at := uint64(start)
	for {
		room := walPage - at%walPage
		if left+align < room {
			return protocol.LSN(at + left)
		}
		if left <= room {
			return protocol.LSN(at + room + walPageHeader + align)
		}
		left -= room
		at += room + walPageHeader
	}
}
