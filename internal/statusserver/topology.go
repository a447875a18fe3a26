package statusserver

import (
	"fmt"
	"strings"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// node is one part of the chain from the primary to the standby.
type node struct {
	Kind  string // primary, relay, helper, standby, ...
	Where string // an address or a name, "" where this process does not know it
	Note  string
	Good  bool   // nothing is known to be wrong with it
	Here  bool   // it is in this process
	Link  string // what comes from the node before, "" for the first
	Below []node // side by side: what streams from it
}

// maxBelow bounds how many sessions are drawn.
const maxBelow = 20

// topology says what a process knows of the chain it is part of.
func topology(d *statusdoc.Document) []node {
	first := upstreamNode(d)
	switch {
	case d.Helper == nil && d.Relay != nil:
		return []node{first, relayNode(d)}
	case d.Helper == nil:
		return []node{first}
	case d.Command == "solo":
		return []node{first, {
			Kind: "solo: relay and helper", Where: d.Host, Note: sourceNote(d.Source()), Good: d.Source() != nil && d.Source().Connected,
			Here: true, Link: "WAL, slots by SQL",
		}, standbyNode(d, soloLink(d.Relay))}
	}
	u := &d.Helper.Upstream
	between := node{Kind: "relay", Where: d.Upstream, Note: "no slot message yet", Good: u.Fresh, Link: "WAL, slots by SQL"}
	if u.MessageAge >= 0 {
		between.Note = fmt.Sprintf("slot message %d", u.MessageSequence)
	}
	if !u.Fresh && u.MessageAge >= 0 {
		between.Note = "slot messages have stopped"
	}
	if d.Relay != nil && d.Relay.NoRelay {
		between.Note = "this is not a relay"
	}
	link, next := "slot messages", "advances the slots by SQL"
	if d.Relay != nil {
		link, next = "WAL, slot messages", "WAL"
	}
	bad := d.Helper.Reason != decoder.ReasonNone && d.Helper.Reason != decoder.ReasonNotInRecovery
	note := "all slots can be kept"
	if bad {
		note = words(d.Helper.Reason)
	}
	return []node{first, between, {Kind: "helper", Where: d.Host, Note: note, Good: !bad, Here: true, Link: link}, standbyNode(d, next)}
}

// upstreamNode is the server whose slots are ferried.
func upstreamNode(d *statusdoc.Document) node {
	n := node{Kind: "primary", Note: "not known yet"}
	switch s := d.Source(); {
	case s != nil:
		n.Where, n.Good = s.Upstream, s.Connected
		if n.Where == "" {
			n.Where = d.Upstream
		}
		switch {
		case s.InRecovery:
			n.Kind = "standby, in a cascade"
			fallthrough
		case s.Connected:
			n.Note = fmt.Sprintf("timeline %d, %s", s.TimelineID, count(s.Slots, "slot"))
		default:
			n.Note = "cannot be reached"
		}
	case d.Helper != nil && d.Helper.Upstream.MessageAge >= 0:
		n.Good = d.Helper.Upstream.Fresh
		n.Note = fmt.Sprintf("timeline %d, WAL to %v", d.Helper.Upstream.TimelineID, d.Helper.Upstream.CaptureLSN)
		if d.Helper.Upstream.InRecovery {
			n.Kind = "standby, in a cascade"
		}
	}
	return n
}

func sourceNote(s *relay.SlotSourceStatus) string {
	if s == nil || !s.Connected {
		return "the slots cannot be read"
	}
	return "reads the slots"
}

func soloLink(r *relay.Status) string {
	if r == nil {
		return "advances the slots by SQL"
	}
	return "WAL"
}

func standbyNode(d *statusdoc.Document, link string) node {
	s := &d.Helper.Standby
	n := node{Kind: "standby", Where: d.Standby, Link: link, Good: d.Helper.Role == decoder.RoleStandby}
	switch {
	case d.Helper.Reason == decoder.ReasonStandbyUnreachable:
		n.Note, n.Good = "cannot be reached", false
	case d.Helper.Role == decoder.RolePrimary:
		n.Kind, n.Note, n.Good = "primary now", "not in recovery: nothing is ferried to it", false
		if d.Helper.Promotion != nil {
			n.Note = fmt.Sprintf("promoted to timeline %d", d.Helper.Promotion.TimelineID)
		}
	case s.ReplayPaused:
		n.Note, n.Good = fmt.Sprintf("replay is paused at %v", s.ReplayLSN), false
	case s.ReplayLSN != protocol.InvalidLSN:
		n.Note = fmt.Sprintf("timeline %d, replayed to %v", s.TimelineID, s.ReplayLSN)
	}
	return n
}

// relayNode is a relay with those who stream from it.
func relayNode(d *statusdoc.Document) node {
	r := d.Relay
	n := node{
		Kind: "relay", Where: strings.Join(r.Listen, ", "), Note: count(len(r.Sessions), "session"), Good: len(r.Listen) > 0,
		Here: true, Link: "WAL, slots by SQL",
	}
	for i := range r.Sessions {
		if s := &r.Sessions[i]; len(n.Below) < maxBelow && (s.Kind == relay.KindPhysical || s.Kind == relay.KindSidecar) {
			n.Below = append(n.Below, downstreamNode(s))
		}
	}
	return n
}

func downstreamNode(s *relay.SessionStatus) node {
	n := node{Kind: "standby or backup", Where: s.Downstream, Note: s.State, Good: true, Link: "WAL"}
	if s.ApplicationName != "" {
		n.Where = s.ApplicationName + ", " + s.Downstream
	}
	switch {
	case s.Kind == relay.KindSidecar:
		n.Kind, n.Link = "helper", "slot messages"
	case s.OptedIn:
		n.Kind, n.Link = "helper and standby", "WAL, slot messages"
	}
	if s.HelperReport != nil {
		counts := statusdoc.CountReport(s.HelperReport)
		n.Note, n.Good = counts.String(), counts.Ready == counts.Total()
	}
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// words writes a name of the contract for people.
func words[T ~string](s T) string { return strings.ReplaceAll(string(s), "_", " ") }
