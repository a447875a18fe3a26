package relay

import (
	"cmp"
	"slices"

	"github.com/slotferry/slotferry/protocol"
)

// StandbyNames is a parsed list of standbys in the syntax and with the meaning
// of synchronous_standby_names. ParseStandbyNames makes one.
type StandbyNames struct {
	any   bool     // ANY n: a quorum; else FIRST n: by priority, the order of names
	n     int      // how many standbys must have the WAL, at least 1
	names []string // as written, without their quotes; "*" is any standby
	text  string   // what was parsed
}

// String returns the text that was parsed.
func (n *StandbyNames) String() string { return n.text }

// Standby is one physical walsender of the upstream: who it serves, and what the
// standby there has flushed.
type Standby struct {
	ApplicationName string       `json:"application_name"` // "" when not known
	Slot            string       `json:"slot_name"`        // physical slot; "" without one
	Flush           protocol.LSN `json:"flush_lsn"`        // 0/0 until the standby has said

	// Streaming is false while the walsender still catches up: PostgreSQL then does
	// not count it as synchronous.
	Streaming bool `json:"streaming"`

	// Relayed is set when its replication passes through this relay, so that Flush
	// is as new as can be.
	Relayed bool `json:"relayed"`
}

// Name is what to call the standby: application_name, or its slot.
func (s *Standby) Name() string { return cmp.Or(s.ApplicationName, s.Slot) }

// priority is the place of a standby in the list, from 1 on; 0 when it is not
// there. application_name is compared as SyncRepGetStandbyPriority (syncrep.c)
// does; the name of the physical slot counts likewise.
func (n *StandbyNames) priority(s *Standby) int {
	for i, name := range n.names {
		if name == "*" || equalFoldASCII(name, s.ApplicationName) || s.Slot != "" && equalFoldASCII(name, s.Slot) {
			return i + 1
		}
	}
	return 0
}

// candidate is a standby that counts, with its priority.
type candidate struct {
	*Standby
	priority int
}

// candidates returns the standbys that may count now, as
// SyncRepGetCandidateStandbys (syncrep.c) does: in the list, streaming, and with a
// flush position. By priority it is the first n of them; where priorities are the
// same, which PostgreSQL leaves open, the one that has flushed least comes first.
func (n *StandbyNames) candidates(standbys []Standby) []candidate {
	list := make([]candidate, 0, len(standbys))
	for i := range standbys {
		s := &standbys[i]
		if p := n.priority(s); p > 0 && s.Streaming && s.Flush != protocol.InvalidLSN {
			list = append(list, candidate{s, p})
		}
	}
	if n.any {
		slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(b.Flush, a.Flush) })
		return list
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.Flush, b.Flush))
	})
	return list[:min(n.n, len(list))]
}

// Position returns up to where enough standbys have flushed, InvalidLSN when
// there are not enough: what SyncRepGetSyncRecPtr (syncrep.c) computes, the
// least of the first n, or the n-th latest of all.
func (n *StandbyNames) Position(standbys []Standby) protocol.LSN {
	list := n.candidates(standbys)
	if len(list) < n.n {
		return protocol.InvalidLSN
	}
	if n.any {
		return list[n.n-1].Flush
	}
	position := list[0].Flush
	for _, c := range list[1:] {
		position = min(position, c.Flush)
	}
	return position
}

// behind says who keeps Position below end: the standbys that count and have not
// flushed up to there, and, where there are too few of them, the names of the list
// that nobody connected goes by, or all names when each has somebody.
func (n *StandbyNames) behind(standbys []Standby, end protocol.LSN) []string {
	var who []string
	list := n.candidates(standbys)
	for _, c := range list {
		if c.Flush < end {
			who = append(who, c.Name())
		}
	}
	if len(list) < n.n {
		missing := slices.Clone(n.names)
		for _, c := range list {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == n.names[c.priority-1] })
		}
		if len(missing) == 0 {
			missing = n.names
		}
		who = append(who, missing...)
	}
	slices.Sort(who)
	return slices.Compact(who)
}

// equalFoldASCII compares as pg_strcasecmp does in the C locale: letters beyond
// ASCII as they are.
func equalFoldASCII(a, b string) bool {
	lower := func(c byte) byte {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}
