package wal

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/slotferry/slotferry/protocol"
)

// state is what a Walker reads next.
type state uint8

const (
	seeking  state = iota // nothing is known up to the next page
	skipping              // the rest of a record whose begin was not seen, skip bytes
	between               // padding, then a record's header
	header                // a record's header, of which have bytes are there
	body                  // a record's data, left bytes of it
	emptied               // the segment behind a switch record
)

// Walker finds the records in WAL that comes in pieces. It may begin anywhere:
// where a record begins, as most streams do, or else it looks for the next page,
// whose header says where one does. Its memory is constant. The zero value is ready to use.
type Walker struct {
	pos   protocol.LSN // of the next byte
	state state

	page     [longHeaderLen]byte // the page header under way
	pageHave int

	raw  [RecordHeaderLen]byte // the record header under way
	have int
	rec  Record
	left uint32
	crc  uint32

	skip     uint32
	lastLSN  protocol.LSN // of the last record; 0/0 when it is not known
	major    int
	timeline uint32
	pageSize uint32
	segSize  uint32

	damage  uint64
	started bool
	trying  bool // whether the record under way is one is not known: the walk began there
}

// Major returns the major version of the server whose WAL this is; 0 while no
// page header was seen, or for one that is not known.
func (w *Walker) Major() int { return w.major }

// Timeline returns the timeline of the last page header, 0 before the first.
func (w *Walker) Timeline() uint32 { return w.timeline }

// Damage returns how many times something was found that is not WAL.
func (w *Walker) Damage() uint64 { return w.damage }

// Lost says that what comes next does not follow what came before.
func (w *Walker) Lost() { w.state, w.lastLSN, w.started, w.trying = seeking, 0, false, false }

// Walk reads data, which lies at start, and appends to dst each record that
// ends in it, each that begins in it and goes on behind it, and each that was
// given up in it.
func (w *Walker) Walk(start protocol.LSN, data []byte, dst []Record) []Record {
	if w.pageSize == 0 {
		w.pageSize, w.segSize = defaultPageSize, defaultSegmentSize
	}
	switch {
	case w.started && start == w.pos:
		w.rec.Continued = w.state == body || w.state == header
	default:
		dst = w.abandon(dst)
		w.Lost()
		w.started, w.pos, w.pageHave, w.have = true, start, 0, 0
		if start%protocol.LSN(w.pageSize) >= shortHeaderLen && start%8 == 0 {
			w.state, w.trying, w.rec = header, true, Record{LSN: start}
		}
	}
	for len(data) > 0 {
		n := 0
		if w.pos%protocol.LSN(w.pageSize) < protocol.LSN(w.headerLen()) {
			n, dst = w.pageBytes(data, dst)
		} else {
			room := int(protocol.LSN(w.pageSize) - w.pos%protocol.LSN(w.pageSize))
			n, dst = w.pageData(data[:min(len(data), room)], dst)
		}
		w.pos += protocol.LSN(n)
		data = data[n:]
	}
	if w.state == body && !w.trying {
		r := w.rec
		r.Left = w.left
		dst = append(dst, r)
	}
	return dst
}

// spoiled notes that something is not WAL, unless it need not be.
func (w *Walker) spoiled() {
	if !w.trying {
		w.damage++
	}
	w.state, w.lastLSN, w.trying = seeking, 0, false
}

// headerLen is how long the header of the page at pos is, as far as is known.
// In the middle of a page that was not seen from its begin there is none.
func (w *Walker) headerLen() int {
	at := w.pos % protocol.LSN(w.pageSize)
	switch {
	case w.state == emptied && w.pos%protocol.LSN(w.segSize) != 0:
		return 0
	case at == 0:
		return shortHeaderLen
	case w.pageHave == 0 || protocol.LSN(w.pageHave) != at:
		return 0
	case w.pageHave < shortHeaderLen:
		return shortHeaderLen
	case binary.LittleEndian.Uint16(w.page[2:])&longHeader != 0:
		return longHeaderLen
	default:
		return shortHeaderLen
	}
}

// pageBytes reads bytes of a page header.
func (w *Walker) pageBytes(data []byte, dst []Record) (int, []Record) {
	if w.pos%protocol.LSN(w.pageSize) == 0 {
		w.pageHave = 0
		if w.state == emptied {
			w.state = between
		}
	}
	want := w.headerLen() - w.pageHave
	n := copy(w.page[w.pageHave:w.pageHave+want], data)
	w.pageHave += n
	switch {
	case w.pageHave < shortHeaderLen:
		return n, dst
	case w.pageHave == shortHeaderLen && binary.LittleEndian.Uint16(w.page[2:])&longHeader != 0:
		return n, dst // 16 bytes more
	case w.pageHave != shortHeaderLen && w.pageHave != longHeaderLen:
		return n, dst
	}
	return n, w.beginPage(w.pos+protocol.LSN(n), dst)
}

// beginPage acts on a whole page header, behind which lies pos.
func (w *Walker) beginPage(pos protocol.LSN, dst []Record) []Record {
	var h pageHeader
	h.decode(w.page[:w.pageHave])
	if !h.plausible(pos - protocol.LSN(w.pageHave)) {
		dst = w.abandon(dst)
		w.spoiled()
		return dst
	}
	w.major, w.timeline = majors[h.magic], h.timeline
	if powerOfTwo(h.segSize) && h.segSize >= 1<<20 && h.segSize <= 1<<30 && h.pageSize == w.pageSize {
		w.segSize = h.segSize
	}
	continued := h.info&firstIsContrecord != 0
	switch {
	case w.state == body && (!continued || h.remLen != w.left):
		if h.info&firstIsOverwriteContrecord == 0 && !w.trying {
			w.damage++
		}
		dst = w.abandon(dst)
		w.lastLSN, w.trying = 0, false
	case w.state == header && (!continued || h.remLen != w.recordLen()-uint32(w.have)):
		w.spoiled()
	case w.state == skipping && continued:
		w.skip = h.remLen
		return dst
	case w.state == body, w.state == header:
		return dst
	}
	w.have = 0
	w.state = between
	if continued {
		w.state, w.skip = skipping, h.remLen
	}
	return dst
}

// recordLen is tot_len of a header whose first 8 bytes are there: it never is
// split before.
func (w *Walker) recordLen() uint32 { return binary.LittleEndian.Uint32(w.raw[:]) }

// abandon gives up a record that has begun.
func (w *Walker) abandon(dst []Record) []Record {
	if w.state != body || w.trying {
		return dst
	}
	r := w.rec
	r.Left, r.Abandoned = w.left, true
	return append(dst, r)
}

// pageData reads bytes of a page behind its header.
func (w *Walker) pageData(data []byte, dst []Record) (int, []Record) {
	switch w.state {
	case skipping:
		n := min(len(data), int(w.skip))
		if w.skip -= uint32(n); w.skip == 0 {
			w.state = between
		}
		return n, dst
	case between:
		if pad := int(-w.pos & 7); pad > 0 {
			return min(len(data), pad), dst
		}
		w.state, w.have = header, 0
		w.rec = Record{LSN: w.pos}
		return 0, dst
	case header:
		n := copy(w.raw[w.have:], data)
		w.have += n
		if w.have == RecordHeaderLen {
			dst = w.beginRecord(w.pos+protocol.LSN(n), dst)
		}
		return n, dst
	case body:
		n := min(len(data), int(w.left))
		w.crc = crc32.Update(w.crc, castagnoli, data[:n])
		if w.left -= uint32(n); w.left == 0 {
			dst = w.endRecord(w.pos+protocol.LSN(n), dst)
		}
		return n, dst
	default: // seeking, emptied
		return len(data), dst
	}
}

// beginRecord acts on a whole record header, behind which lies pos.
func (w *Walker) beginRecord(pos protocol.LSN, dst []Record) []Record {
	w.rec.decode(&w.raw)
	if !w.rec.plausible() || w.lastLSN != 0 && w.rec.Prev != w.lastLSN {
		w.spoiled()
		return dst
	}
	w.state, w.left, w.crc = body, w.rec.TotalLen-RecordHeaderLen, 0
	if w.left == 0 {
		dst = w.endRecord(pos, dst)
	}
	return dst
}

// endRecord acts on a whole record, behind which lies pos.
func (w *Walker) endRecord(pos protocol.LSN, dst []Record) []Record {
	r := w.rec
	switch sound := finishCRC(w.crc, &w.raw); {
	case !sound && w.trying:
		w.spoiled()
		return dst
	case !sound:
		r.BadCRC = true
		w.damage++
	}
	w.trying = false
	w.state, w.lastLSN = between, r.LSN
	r.End = pos + (-pos & 7)
	if r.isSwitch() {
		seg := protocol.LSN(w.segSize)
		r.End = (r.End + seg - 1) / seg * seg
		w.state = emptied
	}
	return append(dst, r)
}
