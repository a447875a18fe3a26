package pcap

import (
	"net/netip"

	"github.com/slotferry/slotferry/protocol/trace"
)

// maxPending is how many bytes of a connection are kept while it is not known
// whether it is PostgreSQL's.
const maxPending = 64 << 10

// verdict says what a connection is.
type verdict uint8

const (
	undecided verdict = iota
	postgres
	foreign
)

// connection is one TCP connection.
type connection struct {
	id      uint64
	ends    [2]netip.AddrPort
	halves  [2]half // halves[i] is what ends[i] sends
	opener  int     // which end is the downstream; -1 when it is not known
	late    bool    // its begin was not captured
	verdict verdict
	closed  bool
	used    uint64

	pending      []pendingChunk
	pendingBytes int
}

// pendingChunk is a chunk, or lost bytes, of a connection that is undecided.
type pendingChunk struct {
	from int
	chunk
	lost int64
}

// direction returns the direction of what an end sends.
func (c *connection) direction(from int) trace.Direction {
	if from == c.opener {
		return trace.Upstream
	}
	return trace.Downstream
}

// decide looks at what is pending and says what the connection is. last says
// that no more comes.
func (c *connection) decide(port uint16, last bool) verdict {
	for i, end := range c.ends {
		if port != 0 && end.Port() == port {
			if c.opener < 0 {
				c.opener = 1 - i
			}
			return postgres
		}
	}
	if port != 0 {
		return foreign
	}
	if c.opener >= 0 && !c.late {
		ok, enough := trace.OpensSession(c.begin(c.opener))
		switch {
		case ok:
			return postgres
		case enough || last || c.pendingBytes > maxPending:
			return foreign
		}
		return undecided
	}
	if first := &c.pending[0]; len(c.pending) == 1 {
		if ok, _ := trace.OpensSession(first.data); ok { // only the handshake was not captured
			c.opener, c.late = first.from, false
			return postgres
		}
	}
	newest := &c.pending[len(c.pending)-1]
	if dir, ok := trace.Guess(newest.data, wireTime(newest.time)); ok {
		c.opener = newest.from
		if dir == trace.Downstream {
			c.opener = 1 - newest.from
		}
		return postgres
	}
	if last || c.pendingBytes > maxPending {
		return foreign
	}
	return undecided
}

// begin returns the first bytes that an end has sent.
func (c *connection) begin(from int) []byte {
	var b []byte
	for _, p := range c.pending {
		if p.from == from {
			b = append(b, p.data[:min(len(p.data), 8)]...)
		}
		if len(b) >= 8 {
			break
		}
	}
	return b
}
