package pcap

// Bounds on what is kept of segments that came before others.
const (
	maxEarly      = 256     // segments
	maxEarlyBytes = 4 << 20 // of one direction
)

// chunk is a run of bytes of one direction.
type chunk struct {
	seq     uint32
	time    int64
	offset  int64
	data    []byte
	missing int // bytes behind data that were not captured
}

func (c *chunk) len() uint32 { return uint32(len(c.data) + c.missing) }

// half is one direction of a TCP connection, whose segments it puts in order.
type half struct {
	started bool
	next    uint32 // sequence number of the next byte
	initial uint32 // of the SYN
	early   []chunk
	bytes   int // in early
	ended   bool
}

// begin sets where the direction begins.
func (h *half) begin(seq uint32) { h.started, h.next = true, seq }

// add takes a segment and gives what is in order now to deliver. It returns how
// many bytes of the segment had been there before. lost is told of bytes that no
// segment has.
func (h *half) add(c chunk, deliver func(chunk), lost func(int64)) (repeated int64) {
	if !h.started {
		h.begin(c.seq)
	}
	if int32(c.seq-h.next) > 0 {
		c.data = append([]byte(nil), c.data...)
		h.early = append(h.early, c)
		h.bytes += len(c.data)
		for len(h.early) > maxEarly || h.bytes > maxEarlyBytes {
			repeated += h.skip(deliver, lost)
		}
		return repeated
	}
	repeated = h.take(c, deliver)
	return repeated + h.drain(deliver)
}

// take delivers what is new in a chunk that does not begin behind next.
func (h *half) take(c chunk, deliver func(chunk)) (repeated int64) {
	if old := h.next - c.seq; old > 0 {
		if old >= c.len() {
			return int64(len(c.data))
		}
		cut := min(int(old), len(c.data))
		repeated = int64(cut)
		c.data, c.offset = c.data[cut:], c.offset+int64(cut)
		c.missing -= int(old) - cut
		c.seq = h.next
	}
	h.next += c.len()
	if c.len() > 0 {
		deliver(c)
	}
	return repeated
}

// drain delivers early chunks that are in order now.
func (h *half) drain(deliver func(chunk)) (repeated int64) {
	for again := true; again; {
		again = false
		for i := range h.early {
			if c := h.early[i]; int32(c.seq-h.next) <= 0 {
				h.remove(i)
				repeated += h.take(c, deliver)
				again = true
				break
			}
		}
	}
	return repeated
}

func (h *half) remove(i int) {
	h.bytes -= len(h.early[i].data)
	h.early = append(h.early[:i], h.early[i+1:]...)
}

// skip gives up the bytes before the first early chunk.
func (h *half) skip(deliver func(chunk), lost func(int64)) (repeated int64) {
	if len(h.early) == 0 {
		return 0
	}
	first := h.early[0].seq
	for _, c := range h.early {
		if int32(c.seq-first) < 0 {
			first = c.seq
		}
	}
	if n := int32(first - h.next); n > 0 {
		lost(int64(n))
		h.next = first
	}
	return h.drain(deliver)
}

// flush gives up all that is missing.
func (h *half) flush(deliver func(chunk), lost func(int64)) (repeated int64) {
	for len(h.early) > 0 {
		repeated += h.skip(deliver, lost)
	}
	return repeated
}
