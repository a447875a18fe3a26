package trace

import "github.com/slotferry/slotferry/protocol"

// breakage is what is known of a place where bytes stop being messages.
type breakage struct {
	reason   string
	last     lastGood
	before   []byte
	behind   []byte
	position int64
}

// lastGood is the last message before a break.
type lastGood struct {
	name     string
	frame    byte
	length   int64
	offset   int64
	position int64
	start    protocol.LSN
}

func (b *breakage) describe(e *encoder) {
	e.str("reason", b.reason)
	e.int("stream_position", b.position)
	if b.last.name != "" {
		e.object("last_good")
		e.str("message", b.last.name)
		if b.last.frame != 0 {
			e.str("type", string(rune(b.last.frame)))
		}
		e.int("length", b.last.length)
		e.int("offset", b.last.offset)
		e.int("position", b.last.position)
		if b.last.start != 0 {
			e.lsn("start", b.last.start)
		}
		e.end('}')
	}
	e.hex("before", b.before, around)
	e.hex("from_here", b.behind, around)
}
