package inspect

import (
	"context"
	"errors"
	"io"

	"github.com/slotferry/slotferry/internal/pcap"
	"github.com/slotferry/slotferry/protocol/trace"
)

// readPackets reads a packet capture to its end.
func (p *printer) readPackets(ctx context.Context, in io.Reader) error {
	account, err := pcap.Read(ctx, in, pcap.Config{Port: p.o.Port, Progress: p.o.Progress}, p)
	a := &p.account
	a.Framing, a.Headers, a.OtherPackets = account.Framing, account.Headers, account.OtherPackets
	a.Retransmitted, a.Damaged, a.TornTail = account.Retransmitted, account.Damaged, account.TornTail
	switch {
	case p.found:
		return errFound
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pcap.ErrDamaged):
		p.fault(err)
		return nil
	}
	return err
}

// Opened is pcap.Sink's.
func (p *printer) Opened(id uint64, time int64, downstream, upstream string, late bool) {
	p.connection(id, time, late)
	p.ends(id, downstream, upstream)
}

// Feed is pcap.Sink's.
func (p *printer) Feed(id uint64, dir trace.Direction, time, offset int64, b []byte) {
	p.account.Stream += int64(len(b))
	p.connection(id, time, true).Feed(dir, time, offset, b)
}

// Lost is pcap.Sink's.
func (p *printer) Lost(id uint64, dir trace.Direction, n int64) {
	p.connection(id, 0, true).Lost(dir, n, "bytes of this connection were not captured")
}

// Closed is pcap.Sink's.
func (p *printer) Closed(id uint64) { p.close(id) }
