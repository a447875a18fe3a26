package trace

import (
	"github.com/slotferry/slotferry/protocol"
)

// Count is how many messages there were, and how many bytes they took.
type Count struct {
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
}

func (c *Count) add(n int64) {
	c.Messages++
	c.Bytes += n
}

// RoundTrips are the times between a PrimaryKeepalive that asks for a reply and
// the StandbyStatusUpdate that follows it, in microseconds.
type RoundTrips struct {
	Count   int64 `json:"count"`
	Least   int64 `json:"least_us"`
	Mean    int64 `json:"mean_us"`
	Most    int64 `json:"most_us"`
	sum     int64
	asked   int64
	pending bool
}

// Silence is the longest time without a message, in microseconds.
type Silence struct {
	Longest int64 `json:"longest_us"`
	Since   int64 `json:"since_raw"` // when it began, microseconds since 2000-01-01 UTC
	last    int64
	begun   bool
}

// Summary is what a connection's messages come to.
type Summary struct {
	Connection uint64                       `json:"connection"`
	First      int64                        `json:"first_raw"` // time of the first message
	Last       int64                        `json:"last_raw"`
	Messages   map[string]map[string]*Count `json:"messages"` // by direction, then by name
	Records    map[string]*Count            `json:"wal_records"`

	WALBytes  int64        `json:"wal_bytes"`
	WALStart  protocol.LSN `json:"wal_start"`
	WALEnd    protocol.LSN `json:"wal_end"`
	WALRate   int64        `json:"wal_bytes_per_second"`
	WALGaps   int64        `json:"wal_gaps"` // places where WAL does not follow what came before
	walFirst  int64
	walLast   int64
	walBefore protocol.LSN

	Breaks     int64      `json:"breaks"`
	Gaps       Count      `json:"gaps"`
	Missing    int64      `json:"missing_bytes"` // known to have been there, and not in the input
	Faults     int64      `json:"faults"`
	RoundTrips RoundTrips `json:"keepalive_round_trips"`
	Silence    Silence    `json:"silence"`
	Bytes      [2]int64   `json:"-"` // by direction
}

// Add counts a message.
func (s *Summary) Add(m *Message) {
	if s.Messages == nil {
		s.Messages, s.Records = map[string]map[string]*Count{}, map[string]*Count{}
		s.Connection, s.First = m.Connection, m.Time
	}
	present := m.Length - m.Missing
	s.Bytes[m.Direction] += present
	s.Missing += m.Missing
	if m.Fault {
		s.Faults++
	}
	switch m.kind {
	case kindBreak:
		s.Breaks++
		return
	case kindGap:
		s.Gaps.add(present)
		return
	}
	s.Last = max(s.Last, m.Time)
	name := m.Name
	if m.Detail != "" {
		name += " " + m.Detail
	}
	byName := s.Messages[m.Direction.String()]
	if byName == nil {
		byName = map[string]*Count{}
		s.Messages[m.Direction.String()] = byName
	}
	count := byName[name]
	if count == nil {
		count = &Count{}
		byName[name] = count
	}
	count.add(present)
	s.Silence.add(m.Time)
	switch m.kind {
	case kindXLogData:
		s.addWAL(m)
	case kindCopy:
		s.RoundTrips.add(m)
	}
}

func (s *Summary) addWAL(m *Message) {
	x := &m.s.xlog
	if x.DataStart == protocol.InvalidLSN {
		return
	}
	if s.WALBytes == 0 {
		s.WALStart, s.walFirst = m.Start, m.Time
	} else if s.walBefore != m.Start {
		s.WALGaps++
	}
	s.WALBytes += int64(len(x.Data))
	s.WALEnd, s.walBefore, s.walLast = m.End, m.End, m.Time
	if d := s.walLast - s.walFirst; d > 0 {
		s.WALRate = int64(float64(s.WALBytes) / float64(d) * 1e6)
	}
	for i := range m.s.records {
		r := &m.s.records[i]
		if r.Left > 0 {
			continue // counted when it ends
		}
		count := s.Records[r.Manager()]
		if count == nil {
			count = &Count{}
			s.Records[r.Manager()] = count
		}
		count.add(int64(r.TotalLen))
	}
}

func (t *RoundTrips) add(m *Message) {
	switch m.frame {
	case protocol.MsgPrimaryKeepalive:
		var k protocol.PrimaryKeepalive
		if k.Decode(m.body) == nil && k.ReplyRequested && !t.pending {
			t.asked, t.pending = m.Time, true
		}
	case protocol.MsgStandbyStatusUpdate:
		if !t.pending {
			return
		}
		d := m.Time - t.asked
		t.pending = false
		if t.Count == 0 || d < t.Least {
			t.Least = d
		}
		t.Most = max(t.Most, d)
		t.Count++
		t.sum += d
		t.Mean = t.sum / t.Count
	}
}

func (s *Silence) add(t int64) {
	if d := t - s.last; s.begun && d > s.Longest {
		s.Longest, s.Since = d, s.last
	}
	s.last, s.begun = t, true
}
