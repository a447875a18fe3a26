package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/jackc/pgio"
)

// SlotMagic opens the body of every slot message and every helper report.
const SlotMagic = "SLTFERRY"

// SlotMessageVersion is the version this package writes, and the only one it
// reads.
const SlotMessageVersion = 1

const (
	// MaxPartBody is the size cap of one part's body in bytes. It is well below
	// a full 128 KiB XLogData, so that no slot message holds WAL back longer
	// than WAL itself does.
	MaxPartBody = 64 << 10

	// MaxPayload is the size cap of a whole message's payload in bytes, room for
	// some 40,000 slots. It bounds what a helper keeps for one upstream.
	MaxPayload = 8 << 20

	partNumberAt     = len(SlotMagic) + 2 + 8 + 8
	partPayloadLenAt = partNumberAt + 2 + 2
	partHeaderLen    = partPayloadLenAt + 4 + 4
	crcLen           = 4
	minPartBody      = partHeaderLen + 1 + crcLen
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is CRC-32C, as PostgreSQL's own WAL records have it.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// HasSlotMagic reports whether the data of a 0/0 XLogData is a slot message,
// of whatever version and in whatever state. What it accepts is stripped.
func HasSlotMagic(data []byte) bool {
	return len(data) >= len(SlotMagic) && string(data[:len(SlotMagic)]) == SlotMagic
}

// Part is one numbered part of a slot message.
type Part struct {
	Version    uint16
	Epoch      uint64
	Sequence   uint64
	Number     uint16 // from 0
	Count      uint16 // parts of the whole message, at least 1
	PayloadLen uint32 // bytes of all parts' chunks together
	PayloadCRC uint32 // CRC-32C of all chunks joined: binds the parts
	Chunk      []byte
}

// Append appends the part's body, checksum included, to dst.
func (p *Part) Append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, SlotMagic...)
	dst = pgio.AppendUint16(dst, p.Version)
	dst = pgio.AppendUint64(dst, p.Epoch)
	dst = pgio.AppendUint64(dst, p.Sequence)
	dst = pgio.AppendUint16(dst, p.Number)
	dst = pgio.AppendUint16(dst, p.Count)
	dst = pgio.AppendUint32(dst, p.PayloadLen)
	dst = pgio.AppendUint32(dst, p.PayloadCRC)
	dst = append(dst, p.Chunk...)
	return pgio.AppendUint32(dst, checksum(dst[at:]))
}

// Decode reads the body of one part: the Data of a 0/0 XLogData. Chunk aliases
// src. Damage anywhere behind the version is ErrChecksum; another version is
// ErrVersion, whatever follows it.
func (p *Part) Decode(src []byte) error {
	c := cursor{b: src}
	p.Version = c.opening()
	if len(src) > MaxPartBody {
		c.failAt(MaxPartBody, ErrTooLarge)
	}
	p.Epoch = c.u64()
	p.Sequence = c.u64()
	p.Number = c.u16()
	p.Count = c.u16()
	p.PayloadLen = c.u32()
	p.PayloadCRC = c.u32()
	p.Chunk = c.bytes(len(src) - c.off - crcLen)
	if sum := c.u32(); c.err == nil && sum != checksum(src[:c.at]) {
		c.fail(ErrChecksum)
	}
	switch {
	case p.Number >= p.Count:
		c.failAt(partNumberAt, ErrInvalid)
	case p.PayloadLen > MaxPayload:
		c.failAt(partPayloadLenAt, ErrTooLarge)
	case len(p.Chunk) == 0:
		c.failAt(partHeaderLen, ErrTruncated)
	case len(p.Chunk) > int(p.PayloadLen):
		c.failAt(partPayloadLenAt, ErrInvalid)
	}
	return c.done("SlotMessage part")
}

// Parts encodes the message as the bodies of one or more parts, each at most
// maxBody bytes long; 0 means MaxPartBody. The bodies are the same for every
// connection, only the XLogData header around them differs. A message that
// could not be read back is refused: ErrTooLarge, or ErrInvalid for a value
// that has no place on the wire.
func (m *SlotMessage) Parts(maxBody int) ([][]byte, error) {
	if maxBody == 0 {
		maxBody = MaxPartBody
	}
	if maxBody < minPartBody || maxBody > MaxPartBody {
		return nil, fmt.Errorf("encode slot message: part size %d is not within %d to %d: %w",
			maxBody, minPartBody, MaxPartBody, ErrInvalid)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encode slot message: %w", err)
	}
	payload := m.appendPayload(nil)
	size := maxBody - partHeaderLen - crcLen
	count := (len(payload) + size - 1) / size
	if len(payload) > MaxPayload || count > math.MaxUint16 {
		return nil, fmt.Errorf("encode slot message: payload of %d bytes in %d parts: %w",
			len(payload), count, ErrTooLarge)
	}
	part := Part{
		Version: SlotMessageVersion, Epoch: m.Epoch, Sequence: m.Sequence, Count: uint16(count),
		PayloadLen: uint32(len(payload)), PayloadCRC: checksum(payload),
	}
	bodies := make([][]byte, 0, count)
	for n := range count {
		part.Number = uint16(n)
		part.Chunk = payload[n*size : min((n+1)*size, len(payload))]
		bodies = append(bodies, part.Append(nil))
	}
	return bodies, nil
}

// AppendSlotFrame appends a whole CopyData frame that carries one part's body
// in an XLogData at 0/0. walEnd is the end of WAL already forwarded on this
// connection, sendTime is in microseconds since 2000-01-01 UTC.
func AppendSlotFrame(dst []byte, walEnd LSN, sendTime int64, body []byte) []byte {
	at := len(dst)
	dst = pgio.AppendUint32(append(dst, 'd'), 0)
	m := XLogData{DataStart: InvalidLSN, WALEnd: walEnd, SendTime: sendTime, Data: body}
	dst = m.Append(dst)
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-1))
	return dst
}
