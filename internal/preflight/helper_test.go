package preflight

import (
	"slices"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/relay"
)

// TestGateIsShutWithoutAHelper: answers of relays alone say nothing of slots, and
// those of a helper nothing of another cluster's.
func TestGateIsShutWithoutAHelper(t *testing.T) {
	relayOf := func(id uint64) *statusdoc.Document {
		return &statusdoc.Document{Command: "relay", Relay: &relay.Status{SlotSource: &relay.SlotSourceStatus{SystemIdentifier: id}}}
	}
	helperOf := func(id uint64) *statusdoc.Document {
		return &statusdoc.Document{Command: "helper", Helper: &decoder.Status{Standby: decoder.StandbyStatus{SystemIdentifier: id}}}
	}
	server := func(id uint64) *Server { return &Server{Address: "db2:5432", SystemIdentifier: id} }
	const none = "none at these addresses"
	for _, test := range []struct {
		name              string
		documents         []*statusdoc.Document
		upstream, standby *Server
		want              []string
	}{
		{name: "nobody answered, which is said elsewhere"},
		{name: "a relay", documents: []*statusdoc.Document{relayOf(7)}, want: []string{none}},
		{name: "a relay that has read nothing yet", documents: []*statusdoc.Document{relayOf(0)}, want: []string{none}},
		{name: "two relays of one cluster", documents: []*statusdoc.Document{relayOf(7), relayOf(7)}, want: []string{none}},
		{name: "relay and helper", documents: []*statusdoc.Document{relayOf(7), helperOf(7)}, upstream: server(7), standby: server(7)},
		{name: "relay that has read nothing, and helper", documents: []*statusdoc.Document{relayOf(0), helperOf(7)}},
		{name: "helpers of two clusters", documents: []*statusdoc.Document{helperOf(7), helperOf(8)}},
		{name: "a helper of another cluster than the relay's", documents: []*statusdoc.Document{relayOf(7), helperOf(8)},
			want: []string{none + " of system identifier 7"}},
		{name: "a helper of another cluster than the standby's", documents: []*statusdoc.Document{helperOf(8)}, standby: server(7), want: []string{"8"}},
		{name: "a helper of another cluster than both servers'", documents: []*statusdoc.Document{helperOf(8)}, upstream: server(7), standby: server(7),
			want: []string{"8"}},
		{name: "a server whose role may not know", documents: []*statusdoc.Document{helperOf(8)}, upstream: server(0)},
		{name: "a server that was not reached", documents: []*statusdoc.Document{helperOf(8)}, upstream: &Server{ConnectError: "refused", SystemIdentifier: 7}},
		{name: "a helper that has not looked yet", documents: []*statusdoc.Document{helperOf(0)}, standby: server(7)},
	} {
		var got []string
		for _, f := range CheckGate(test.documents, test.upstream, test.standby) {
			if f.Level != Fail || f.Side != Helper || f.Change == "" {
				t.Errorf("%s: %+v", test.name, f)
			}
			got = append(got, f.Value)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
