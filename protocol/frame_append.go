package protocol

import (
	"encoding/binary"

	"github.com/jackc/pgio"
)

// appendFrame appends a frame whose body put appends.
func appendFrame(dst []byte, kind byte, put func([]byte) []byte) []byte {
	at := len(dst)
	dst = put(pgio.AppendUint32(append(dst, kind), 0))
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-1))
	return dst
}

// AppendCopyData appends a CopyData frame around a message, which begins with
// its own type byte.
func AppendCopyData(dst, message []byte) []byte {
	return appendFrame(dst, FrameCopyData, func(dst []byte) []byte { return append(dst, message...) })
}

// AppendCopyBothResponse appends the frame that opens copy-both, as
// StartReplication (walsender.c) sends it: text format, no columns.
//
//	Byte1('W') | Int32 7 | Int8 0 | Int16 0
func AppendCopyBothResponse(dst []byte) []byte {
	return append(dst, FrameCopyBoth, 0, 0, 0, 7, 0, 0, 0)
}

// AppendCopyDone appends the frame that ends a copy.
func AppendCopyDone(dst []byte) []byte { return append(dst, FrameCopyDone, 0, 0, 0, 4) }

// AppendCommandComplete appends the frame that ends a command.
//
//	Byte1('C') | Int32 length | String tag
func AppendCommandComplete(dst []byte, tag string) []byte {
	return appendFrame(dst, FrameCommandComplete, func(dst []byte) []byte { return append(append(dst, tag...), 0) })
}

// AppendReadyForQuery appends the frame that says the upstream is idle and
// outside a transaction.
//
//	Byte1('Z') | Int32 5 | Byte1('I')
func AppendReadyForQuery(dst []byte) []byte {
	return append(dst, FrameReadyForQuery, 0, 0, 0, 5, 'I')
}
