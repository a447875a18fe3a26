package inspect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// printSummary prints what all messages come to.
func (p *printer) printSummary() {
	p.account.sum()
	var list []*summary
	for _, id := range p.order {
		if s := p.sums[id]; s.Messages != nil {
			list = append(list, s)
		}
	}
	if p.o.JSON {
		document := struct {
			Connections []*summary `json:"connections"`
			Faults      int        `json:"faults"`
			Input       *Account   `json:"input"`
		}{list, p.faults, &p.account}
		if document.Connections == nil {
			document.Connections = []*summary{}
		}
		e := json.NewEncoder(p.out)
		e.SetEscapeHTML(false)
		if err := e.Encode(document); err != nil && p.err == nil {
			p.err = fmt.Errorf("write output: %w", err)
		}
		return
	}
	for _, s := range list {
		p.printConnection(s)
	}
	p.printAccount()
}

func (p *printer) printConnection(s *summary) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "connection %d", s.Connection)
	if s.Downstream != "" {
		fmt.Fprintf(w, ": %s to %s", s.Downstream, s.Upstream)
	}
	fmt.Fprintf(w, "\n  from\t%s\n  to\t%s\n", clock(s.First), clock(s.Last))
	for _, dir := range []trace.Direction{trace.Upstream, trace.Downstream} {
		counts := s.Messages[dir.String()]
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(w, "  %c %s\t%d\t%d bytes\n", dir.Letter(), name, counts[name].Messages, counts[name].Bytes)
		}
	}
	if s.WALBytes > 0 {
		fmt.Fprintf(w, "  WAL\t%s to %s\t%d bytes\t%d bytes/s\t%d gaps\n", s.WALStart, s.WALEnd, s.WALBytes, s.WALRate, s.WALGaps)
		for _, name := range slices.Sorted(maps.Keys(s.Records)) {
			fmt.Fprintf(w, "  WAL %s\t%d\t%d bytes\n", name, s.Records[name].Messages, s.Records[name].Bytes)
		}
	}
	if t := s.RoundTrips; t.Count > 0 {
		fmt.Fprintf(w, "  keepalive round trips\t%d\tleast %v\tmean %v\tmost %v\n", t.Count, micros(t.Least), micros(t.Mean), micros(t.Most))
	}
	if s.Silence.Longest > 0 {
		fmt.Fprintf(w, "  longest silence\t%v\tsince %s\n", micros(s.Silence.Longest), clock(s.Silence.Since))
	}
	if s.Breaks > 0 || s.Gaps.Messages > 0 || s.Missing > 0 || s.Faults > 0 {
		fmt.Fprintf(w, "  faults\t%d\tbreaks %d\tgaps %d, %d bytes\tmissing %d bytes\n",
			s.Faults, s.Breaks, s.Gaps.Messages, s.Gaps.Bytes, s.Missing)
	}
	_ = w.Flush() // to p.out, which keeps its error
}

func (p *printer) printAccount() {
	a := &p.account
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(p.out, "input")
	for _, row := range []struct {
		name  string
		value int64
		must  bool
	}{
		{"file header", a.FileHeader, true}, {"records' or packets' framing", a.Framing, true},
		{"packet headers", a.Headers, false}, {"other packets", a.OtherPackets, false},
		{"retransmitted", a.Retransmitted, false}, {"damaged", a.Damaged, false}, {"torn tail", a.TornTail, false},
		{"messages", a.Messages, true}, {"gaps", a.Gaps, false}, {"unfinished messages", a.Unfinished, false},
		{"encrypted", a.Encrypted, false}, {"total", a.Total, true},
	} {
		if row.must || row.value != 0 {
			fmt.Fprintf(w, "  %d\t  %s\t\n", row.value, row.name)
		}
	}
	_ = w.Flush()
}

func clock(t int64) string { return protocol.Time(t).Format("2006-01-02 15:04:05.000000Z07:00") }

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
