package protocol

import (
	"encoding/binary"
	"hash/crc32"

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
	// some 20,000 slots. It bounds what a helper keeps for one upstream.
	MaxPayload = 8 << 20

	partHeaderLen = len(SlotMagic) + 2 + 8 + 8 + 2 + 2 + 4 + 4
	minPartBody   = partHeaderLen + 4 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	return pgio.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// Decode reads the body of one part: the Data of a 0/0 XLogData. Chunk aliases
// src. An unknown version is ErrVersion even when the rest cannot be read,
// because the rest may be laid out differently there.
func (p *Part) Decode(src []byte) error {
	c := cursor{b: src}
	if string(c.bytes(len(SlotMagic))) != SlotMagic {
		c.fail(ErrMagic)
	}
	p.Version = c.u16()
	if c.err == nil && p.Version != SlotMessageVersion {
		c.fail(ErrVersion)
	}
	if c.err == nil && len(src) > MaxPartBody {
		c.fail(ErrTooLarge)
	}
	p.Epoch = c.u64()
	p.Sequence = c.u64()
	p.Number = c.u16()
	p.Count = c.u16()
	p.PayloadLen = c.u32()
	p.PayloadCRC = c.u32()
	p.Chunk = c.bytes(len(src) - c.off - 4)
	sum := c.u32()
	if c.err == nil {
		switch {
		case sum != crc32.Checksum(src[:len(src)-4], castagnoli):
			c.fail(ErrChecksum)
		case p.PayloadLen > MaxPayload:
			c.fail(ErrTooLarge)
		case p.Number >= p.Count, len(p.Chunk) == 0, len(p.Chunk) > int(p.PayloadLen):
			c.fail(ErrInvalid)
		}
	}
	return c.done("SlotMessage part")
}

// Parts encodes the message as the bodies of one or more parts, each at most
// maxBody bytes long; 0 means MaxPartBody. The bodies are the same for every
// connection, only the XLogData header around them differs.
func (m *SlotMessage) Parts(maxBody int) ([][]byte, error) {
	if maxBody == 0 {
		maxBody = MaxPartBody
	}
	payload := m.appendPayload(nil)
	if len(payload) > MaxPayload || maxBody < minPartBody || maxBody > MaxPartBody {
		return nil, &MessageError{Message: "SlotMessage", Offset: len(payload), Err: ErrTooLarge}
	}
	size := maxBody - partHeaderLen - 4
	count := (len(payload) + size - 1) / size
	if count > 0xFFFF {
		return nil, &MessageError{Message: "SlotMessage", Offset: len(payload), Err: ErrTooLarge}
	}
	part := Part{
		Version: SlotMessageVersion, Epoch: m.Epoch, Sequence: m.Sequence, Count: uint16(count),
		PayloadLen: uint32(len(payload)), PayloadCRC: crc32.Checksum(payload, castagnoli),
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
