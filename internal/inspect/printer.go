package inspect

import (
	"bufio"
	"fmt"
	"io"

	"github.com/slotferry/slotferry/protocol/trace"
)

// maxConnections bounds how many connections are followed at a time, and
// maxSummaries of how many there is a summary.
const (
	maxConnections = 1024
	maxSummaries   = 4096
)

// printer prints messages and keeps the account.
type printer struct {
	o       Options
	out     *bufio.Writer
	line    []byte
	account Account
	faults  int
	found   bool
	err     error // of the output

	conns map[uint64]*connection
	sums  map[uint64]*summary
	order []uint64 // of sums, as they came
	used  uint64   // counts up, to tell which connection was idle longest
}

// connection is one that is followed.
type connection struct {
	session *trace.Session
	used    uint64
}

// summary is one connection's, with its addresses.
type summary struct {
	Downstream string `json:"downstream"`
	Upstream   string `json:"upstream"`
	trace.Summary
}

func newPrinter(out io.Writer, o Options) *printer {
	return &printer{
		o: o, out: bufio.NewWriterSize(out, 64<<10),
		conns: map[uint64]*connection{}, sums: map[uint64]*summary{},
	}
}

// connection returns the session of a connection. late says that its begin may
// not be in the input.
func (p *printer) connection(id uint64, time int64, late bool) *trace.Session {
	p.used++
	if c := p.conns[id]; c != nil {
		c.used = p.used
		return c.session
	}
	if len(p.conns) >= maxConnections {
		p.closeIdlest()
	}
	s := trace.NewSession(trace.Config{
		ShowSecrets: p.o.ShowSecrets, NoRecords: p.o.NoRecords, At: p.o.At,
	}, id, p.message)
	if late {
		s.JoinLate()
	}
	p.conns[id] = &connection{session: s, used: p.used}
	p.summary(id)
	return s
}

func (p *printer) closeIdlest() {
	var idlest uint64
	least := ^uint64(0)
	for id, c := range p.conns {
		if c.used < least {
			idlest, least = id, c.used
		}
	}
	p.close(idlest)
}

// close ends a connection, if it is there.
func (p *printer) close(id uint64) {
	if c := p.conns[id]; c != nil {
		c.session.End()
		delete(p.conns, id)
	}
}

// summary returns that of a connection. Those beyond maxSummaries share one.
func (p *printer) summary(id uint64) *summary {
	s := p.sums[id]
	if s == nil && len(p.sums) >= maxSummaries {
		id = 0
		s = p.sums[id]
	}
	if s == nil {
		s = &summary{}
		s.Connection = id
		p.sums[id] = s
		p.order = append(p.order, id)
	}
	return s
}

func (p *printer) ends(id uint64, downstream, upstream string) {
	s := p.summary(id)
	s.Downstream, s.Upstream = downstream, upstream
}

// message prints one message.
func (p *printer) message(m *trace.Message) {
	p.summary(m.Connection).Add(m)
	p.account.add(m)
	if m.Fault {
		p.faults++
	}
	if p.o.At >= 0 {
		if m.At && !p.found {
			p.found = true
			p.print(m)
		}
		return
	}
	if !p.o.Summary && p.o.Filter.Match(m) {
		p.print(m)
	}
}

func (p *printer) print(m *trace.Message) {
	if p.o.JSON {
		p.line = m.AppendJSON(p.line[:0])
	} else {
		p.line = m.AppendText(p.line[:0])
	}
	p.line = append(p.line, '\n')
	_, err := p.out.Write(p.line)
	if err == nil && p.o.Live {
		err = p.out.Flush()
	}
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("write output: %w", err)
	}
}

// fault prints what is wrong with the file itself.
func (p *printer) fault(err error) {
	p.faults++
	if p.o.Summary || p.o.At >= 0 {
		return
	}
	if p.o.JSON {
		fmt.Fprintf(p.out, "{\"message\":\"FileFault\",\"fault\":true,\"fields\":{\"reason\":%q}}\n", err.Error())
		return
	}
	fmt.Fprintf(p.out, "FileFault\t%v\n", err)
}

func (p *printer) progress(done int64) {
	if p.o.Progress != nil {
		p.o.Progress(done)
	}
}

// finish ends all connections and prints what is left to print.
func (p *printer) finish() error {
	for _, id := range p.order {
		p.close(id)
	}
	for id := range p.conns {
		p.close(id)
	}
	switch {
	case p.o.At >= 0 && !p.found:
		if err := p.out.Flush(); err != nil {
			return err
		}
		return fmt.Errorf("byte %d is in no message: it is part of the file's own framing, or behind its end", p.o.At)
	case p.o.Summary:
		p.printSummary()
	}
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if p.faults > 0 && p.o.At < 0 {
		return ErrFaults
	}
	return p.err
}
