package pcap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// maxConnections bounds how many connections are followed at a time.
const maxConnections = 1024

// Sink takes what is found.
type Sink interface {
	// Opened announces a connection. late says that its begin was not captured.
	Opened(id uint64, time int64, downstream, upstream string, late bool)
	// Feed takes bytes of one direction, in order. They are not to be kept.
	Feed(id uint64, dir trace.Direction, time, offset int64, b []byte)
	// Lost says that n bytes of a direction were not captured.
	Lost(id uint64, dir trace.Direction, n int64)
	// Closed says that no more comes of a connection.
	Closed(id uint64)
}

// Config says what to look for.
type Config struct {
	Port     uint16           // of the upstream; 0: any, connections are told by what is said on them
	Progress func(done int64) // may be nil
}

// Account says what the bytes of a file are that are no connection's.
type Account struct {
	Framing       int64 // of the file and its packets
	Headers       int64 // link, IP and TCP; whole packets that are not TCP too
	OtherPackets  int64 // payload of connections that are not PostgreSQL's
	Retransmitted int64
	TornTail      int64
	Damaged       int64
}

// Reader reads a packet capture.
type Reader struct {
	file    *file
	cfg     Config
	sink    Sink
	segment segment // of the packet at hand
	account Account

	conns  map[[2]netip.AddrPort]*connection
	lastID uint64
	used   uint64
}

// Read gives all connections of a packet capture to sink. An
// io.ErrUnexpectedEOF says that the file ends within a packet, ErrDamaged that it
// cannot be read on; what came before has been given, and is accounted for.
func Read(ctx context.Context, src io.Reader, cfg Config, sink Sink) (Account, error) {
	f, err := open(src)
	if err != nil {
		return Account{TornTail: f.pos}, err
	}
	r := &Reader{file: f, cfg: cfg, sink: sink, conns: map[[2]netip.AddrPort]*connection{}}
	err = r.run(ctx)
	for _, c := range r.conns {
		r.close(c)
	}
	return r.account, err
}

func (r *Reader) run(ctx context.Context) error {
	var p packet
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n%1024 == 0 && r.cfg.Progress != nil {
			r.cfg.Progress(r.file.pos)
		}
		before := r.file.pos - r.file.body
		begin := r.file.pos
		if n == 0 {
			before, begin = 0, 0 // the file's header
		}
		err := r.file.next(&p)
		switch {
		case err == io.EOF:
			r.account.Framing += r.file.pos - begin
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			r.account.TornTail += r.file.pos - begin
			return fmt.Errorf("packet capture is torn: it ends %d bytes into the packet that begins at byte %d: %w",
				r.file.pos-begin, begin, err)
		case errors.Is(err, ErrDamaged):
			_, drained := io.Copy(io.Discard, &counted{r.file})
			r.account.Damaged += r.file.pos - begin
			return errors.Join(err, drained)
		case err != nil:
			return fmt.Errorf("read packet capture: %w", err)
		}
		r.account.Framing += r.file.pos - r.file.body - before
		r.packet(&p)
	}
}

// counted reads the rest of a file and counts it.
type counted struct{ f *file }

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.f.r.Read(b)
	c.f.pos += int64(n)
	return n, err
}

// packet deals with one packet.
func (r *Reader) packet(p *packet) {
	ip := network(p.link, p.data)
	s := &r.segment
	if ip == nil || !s.decode(ip) {
		r.account.Headers += int64(len(p.data))
		return
	}
	r.account.Headers += int64(len(p.data) - len(s.payload))
	c, from := r.connection(s, p.time)
	if c == nil || c.closed {
		r.account.OtherPackets += int64(len(s.payload))
		return
	}
	h := &c.halves[from]
	seq := s.seq
	if s.has(flagSYN) {
		if !h.started {
			h.begin(seq + 1)
			h.initial = seq
		}
		seq++
	}
	if len(s.payload)+s.missing > 0 {
		// The payload lies in p.data: how far behind its begin, cap tells.
		at := cap(p.data) - cap(s.payload)
		r.account.Retransmitted += h.add(chunk{
			seq: seq, time: p.time, offset: p.offset + int64(at), data: s.payload, missing: s.missing,
		}, r.deliverTo(c, from), r.lostOf(c, from))
	}
	if s.has(flagFIN) || s.has(flagRST) {
		h.ended = true
	}
	if s.has(flagRST) || c.halves[0].ended && c.halves[1].ended && len(c.halves[0].early)+len(c.halves[1].early) == 0 {
		r.close(c)
	}
}

// connection returns the one a segment belongs to, and which end has sent it.
// nil says that a segment without payload belongs to none.
func (r *Reader) connection(s *segment, t int64) (c *connection, from int) {
	key := [2]netip.AddrPort{s.from, s.to}
	if s.to.Compare(s.from) < 0 {
		key, from = [2]netip.AddrPort{s.to, s.from}, 1
	}
	r.used++
	c = r.conns[key]
	opens := s.has(flagSYN) && !s.has(flagACK)
	if c != nil && opens && (!c.halves[from].started || c.halves[from].initial != s.seq) {
		r.close(c) // the port is used again
		c = nil
	}
	if c == nil {
		if !s.has(flagSYN) && len(s.payload)+s.missing == 0 {
			return nil, 0
		}
		if len(r.conns) >= maxConnections {
			r.dropIdlest()
		}
		c = &connection{ends: key, opener: -1, late: !s.has(flagSYN)}
		r.conns[key] = c
	}
	if s.has(flagSYN) && c.opener < 0 {
		c.opener = from
		if s.has(flagACK) {
			c.opener = 1 - from
		}
	}
	c.used = r.used
	return c, from
}

func (r *Reader) dropIdlest() {
	var idlest *connection
	for _, c := range r.conns {
		if idlest == nil || c.used < idlest.used {
			idlest = c
		}
	}
	r.close(idlest)
	delete(r.conns, idlest.ends)
}

func (r *Reader) deliverTo(c *connection, from int) func(chunk) {
	return func(k chunk) { r.deliver(c, pendingChunk{from: from, chunk: k}) }
}

func (r *Reader) lostOf(c *connection, from int) func(int64) {
	return func(n int64) { r.deliver(c, pendingChunk{from: from, lost: n}) }
}

// deliver gives bytes of a connection away, once it is known what it is.
func (r *Reader) deliver(c *connection, p pendingChunk) {
	switch {
	case c.verdict == postgres:
		r.give(c, &p)
		return
	case c.verdict == foreign:
		r.account.OtherPackets += int64(len(p.data))
		return
	}
	p.data = append([]byte(nil), p.data...)
	c.pending = append(c.pending, p)
	c.pendingBytes += len(p.data) + 64
	r.settle(c, c.decide(r.cfg.Port, false))
}

// settle acts on what a connection was found to be.
func (r *Reader) settle(c *connection, v verdict) {
	if v == undecided {
		return
	}
	c.verdict = v
	pending := c.pending
	c.pending = nil
	if v == postgres {
		r.lastID++
		c.id = r.lastID
		late := c.late
		if len(pending) > 0 {
			r.sink.Opened(c.id, wireTime(pending[0].time), c.ends[c.opener].String(), c.ends[1-c.opener].String(), late)
		}
	}
	for i := range pending {
		r.deliver(c, pending[i])
	}
}

// give gives bytes to the sink.
func (r *Reader) give(c *connection, p *pendingChunk) {
	dir := c.direction(p.from)
	if p.lost > 0 {
		r.sink.Lost(c.id, dir, p.lost)
		return
	}
	if len(p.data) > 0 {
		r.sink.Feed(c.id, dir, wireTime(p.time), p.offset, p.data)
	}
	if p.missing > 0 {
		r.sink.Lost(c.id, dir, int64(p.missing))
	}
}

// close ends a connection. It stays known, so that what is sent again is not
// taken for another.
func (r *Reader) close(c *connection) {
	if c.closed {
		return
	}
	for from := range c.halves {
		r.account.Retransmitted += c.halves[from].flush(r.deliverTo(c, from), r.lostOf(c, from))
	}
	if c.verdict == undecided && len(c.pending) > 0 {
		r.settle(c, c.decide(r.cfg.Port, true))
	}
	c.closed = true
	if c.verdict == postgres {
		r.sink.Closed(c.id)
	}
	c.verdict = foreign // whatever still comes
}

// wireTime converts microseconds since the Unix epoch.
func wireTime(micros int64) int64 { return protocol.Micros(time.UnixMicro(micros)) }
