package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// CheckHelper turns the status of a running process into findings, one for each
// slot and one for each other thing that keeps it from being ready.
func CheckHelper(d *statusdoc.Document) []Finding {
	l := &list{side: Helper}
	for _, n := range d.NotReady {
		if n.Part != "slot" {
			l.note(Fail, Finding{Setting: n.Part, Value: joined(n.Reason, n.Detail), Want: "ready", Change: n.Hint})
		}
	}
	if len(l.all) == 0 {
		l.must(true, Finding{Setting: d.Command, Value: "running on " + d.Host, Want: "running"})
	}
	if d.Relay != nil {
		l.checkSessions(d.Relay)
	}
	if d.Helper == nil {
		return l.all
	}
	for i := range d.Helper.Slots {
		s := &d.Helper.Slots[i]
		l.must(s.State == decoder.StateReady, Finding{
			Setting: fmt.Sprintf("slot %q", s.Name), Value: joined(joined(string(s.State), string(s.Reason)), s.Detail), Want: "ready",
			Change: orElse(s.Hint, s.Reason.Hint()),
		})
	}
	return l.all
}

// CheckGate says whether the processes that answered can vouch for slots at all.
// Only a helper knows which are ready, so every cluster that one of them serves
// needs a helper among them, and the servers that were asked must be of one of those
// clusters. No answers are no finding: what did not answer has one of its own.
func CheckGate(documents []*statusdoc.Document, upstream, standby *Server) []Finding {
	l := &list{side: Helper}
	var helped, served []uint64 // system identifiers; 0: not known yet
	for _, d := range documents {
		system, _ := d.System()
		served = append(served, system)
		if d.Helper != nil {
			helped = append(helped, system)
		}
	}
	for i, system := range served {
		covered := slices.Contains(helped, system) || system == 0 && len(helped) > 0
		if covered || slices.Contains(served[:i], system) {
			continue
		}
		f := Finding{
			Setting: "helper", Value: "none at these addresses", Want: "one that says which slots are ready",
			Change: "give --url of the standby's helper or solo, too: a relay cannot know which slots are ready",
		}
		if len(helped) > 0 {
			f.Value = fmt.Sprintf("none at these addresses of system identifier %d", system)
		}
		l.note(Fail, f)
	}
	for _, s := range []*Server{upstream, standby} {
		if !s.connected() || s.SystemIdentifier == 0 || len(helped) == 0 || slices.Contains(helped, 0) ||
			slices.Contains(helped, s.SystemIdentifier) {
			continue
		}
		l.note(Fail, Finding{
			Setting: "system identifier", Value: joinIdentifiers(helped),
			Want:   fmt.Sprintf("that of %s, %d", s.Address, s.SystemIdentifier),
			Change: "the helper serves another cluster: check --url, --upstream and --standby",
		})
		break
	}
	return l.all
}

func joinIdentifiers(list []uint64) string {
	texts := make([]string, 0, len(list))
	for _, id := range list {
		texts = append(texts, strconv.FormatUint(id, 10))
	}
	return strings.Join(texts, ", ")
}

// CheckURLFailed is the finding for a process that did not answer.
func CheckURLFailed(url string, err error) []Finding {
	l := &list{side: Helper}
	f := Finding{Setting: "connection", Value: err.Error(), Want: "an answer from " + url}
	if h, ok := err.(interface{ Hint() string }); ok {
		f.Change = h.Hint()
	}
	l.note(Fail, f)
	return l.all
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}
