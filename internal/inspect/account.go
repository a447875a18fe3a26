package inspect

import "github.com/slotferry/slotferry/protocol/trace"

// Account says where every byte of the input went. Total is the sum of the six
// kinds of a file's own bytes and Stream; Stream, of what the connections' bytes
// are. Both sums hold for every input.
type Account struct {
	Total int64 `json:"total"`

	FileHeader    int64 `json:"file_header"`
	Framing       int64 `json:"framing"`        // records or packets: their headers, and checksums
	Headers       int64 `json:"packet_headers"` // link, IP and TCP
	OtherPackets  int64 `json:"other_packets"`  // of connections that are none of PostgreSQL's
	Retransmitted int64 `json:"retransmitted"`
	Damaged       int64 `json:"damaged"`
	TornTail      int64 `json:"torn_tail"`
	Stream        int64 `json:"stream"`

	Messages   int64 `json:"messages"`
	Gaps       int64 `json:"gaps"`
	Unfinished int64 `json:"unfinished"`
	Encrypted  int64 `json:"encrypted"`
}

// add counts a message's bytes.
func (a *Account) add(m *trace.Message) {
	n := m.Length - m.Missing
	switch m.Name {
	case "Gap":
		a.Gaps += n
	case "Unfinished":
		a.Unfinished += n
	case "Encrypted":
		a.Encrypted += n
	default:
		a.Messages += n
	}
}

// sum puts Total right.
func (a *Account) sum() {
	a.Total = a.FileHeader + a.Framing + a.Headers + a.OtherPackets + a.Retransmitted + a.Damaged + a.TornTail + a.Stream
}

// Balanced reports whether both sums hold for an input of that size.
func (a *Account) Balanced(size int64) bool {
	a.sum()
	return a.Total == size && a.Stream == a.Messages+a.Gaps+a.Unfinished+a.Encrypted
}
