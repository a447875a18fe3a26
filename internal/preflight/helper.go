package preflight

import (
	"fmt"

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
