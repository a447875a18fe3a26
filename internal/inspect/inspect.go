package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/slotferry/slotferry/internal/capture"
	"github.com/slotferry/slotferry/internal/pcap"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// Options say what is printed.
type Options struct {
	JSON        bool
	Summary     bool // what the messages come to, in the place of the messages
	ShowSecrets bool
	NoRecords   bool
	At          int64 // print the one message that has this byte of the input; -1: all
	Filter      trace.Filter
	Port        uint16 // of a packet capture: look at this one only; 0: any

	// Live prints each message at once: the input is still being written.
	Live bool

	// Progress is told, now and then, how many bytes of the input are done.
	Progress func(done int64)
}

// ErrFaults says that the input, or what was said on its connections, is not what
// it should be. All has been printed.
var ErrFaults = errors.New("the input has faults")

// ErrNoSecrets says that secrets were asked for that the capture does not have.
var ErrNoSecrets = errors.New("the secrets in this capture were masked when it was written")

// errFound ends the reading: the one message was printed.
var errFound = errors.New("found")

// Run prints what is in the input to out, up to its end, or to where it stands when
// ctx ends. ErrFaults is the end of an input that has some.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	buffered := bufio.NewReaderSize(in, 64<<10)
	head, err := buffered.Peek(len(protocol.CaptureMagic))
	if err != nil && err != io.EOF {
		return fmt.Errorf("read input: %w", err)
	}
	p := newPrinter(out, o)
	switch {
	case protocol.HasCaptureMagic(head):
		err = p.readCapture(ctx, buffered)
	case pcap.HasMagic(head):
		err = p.readPackets(ctx, buffered)
	default:
		return fmt.Errorf("read input: it is neither a capture of slotferry's nor a pcap or pcapng file")
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // as if the input ended here
	}
	if errors.Is(err, errFound) {
		return p.out.Flush()
	}
	if err != nil {
		return errors.Join(err, p.out.Flush())
	}
	return p.finish()
}

// readCapture reads a capture file to its end.
func (p *printer) readCapture(ctx context.Context, in io.Reader) error {
	r, err := capture.NewReader(in)
	var torn *capture.TornError
	if errors.As(err, &torn) {
		p.account.TornTail += torn.Length
		p.fault(err)
		return nil
	}
	if err != nil {
		return err
	}
	if p.o.ShowSecrets && r.Header.Flags&protocol.CaptureHasSecrets == 0 {
		return ErrNoSecrets
	}
	p.account.FileHeader = protocol.CaptureHeaderLen
	var rec protocol.CaptureRecord
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n%256 == 0 {
			p.progress(r.Offset())
		}
		at := r.Offset()
		err := r.Next(&rec)
		var damage *capture.DamageError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &damage):
			p.account.Damaged += damage.Length
			p.fault(err)
			continue
		case errors.As(err, &torn):
			p.account.TornTail += torn.Length
			p.fault(err)
			return nil
		case err != nil:
			return err
		}
		p.account.Framing += protocol.CaptureRecordOverhead
		p.record(&rec, at)
		if p.found {
			return errFound
		}
	}
}

// record deals with one record, which begins at that offset.
func (p *printer) record(rec *protocol.CaptureRecord, at int64) {
	id := uint64(rec.Connection)
	at += protocol.CaptureRecordOverhead - 4 // the checksum is behind the payload
	switch rec.Kind {
	case protocol.CaptureDownstream, protocol.CaptureUpstream:
		dir := trace.Downstream
		if rec.Kind == protocol.CaptureUpstream {
			dir = trace.Upstream
		}
		p.account.Stream += int64(len(rec.Payload))
		p.connection(id, rec.Time, true).Feed(dir, rec.Time, at, rec.Payload)
		return
	case protocol.CaptureOpened:
		p.close(id)
		p.connection(id, rec.Time, false)
		var ends protocol.CaptureEnds
		if err := ends.Decode(rec.Payload); err == nil {
			p.ends(id, ends.Downstream, ends.Upstream)
		}
	case protocol.CaptureResumed:
		var m protocol.CaptureResume
		if err := m.Decode(rec.Payload); err == nil {
			p.close(id)
			p.connection(id, rec.Time, false).Resume(&m)
		}
	case protocol.CaptureClosed:
		p.close(id)
	}
	p.account.Framing += int64(len(rec.Payload))
}
