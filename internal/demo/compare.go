package main

import (
	"cmp"
	"maps"
	"slices"
)

// contents are all rows of a server as PostgreSQL writes them, by name.
type contents map[row]string

// journal is the history of a server: the row changes of each committed
// transaction, by the transaction's number. Every transaction of the demo writes
// its own entry, so the journal is as true as the data.
type journal map[int64][]change

// differenceKind says how a row differs.
type differenceKind string

// The kinds of difference.
const (
	missing differenceKind = "missing" // the new primary has it, the subscriber does not
	extra   differenceKind = "extra"   // the subscriber has it, the new primary does not
	altered differenceKind = "altered" // both have it, with different values
)

// difference is a row in which the subscriber does not agree with the new primary.
type difference struct {
	row
	kind       differenceKind
	primary    string
	subscriber string

	// ahead: a transaction that the subscriber got and the standby did not has
	// changed this row. That is no loss of a slot: the new primary never had the
	// commit.
	ahead bool
}

// compare looks at every row of both sides.
func compare(primary, subscriber contents, ahead map[row]bool) []difference {
	var list []difference
	for r, want := range primary {
		got, exists := subscriber[r]
		switch {
		case !exists:
			list = append(list, difference{row: r, kind: missing, primary: want, ahead: ahead[r]})
		case got != want:
			list = append(list, difference{row: r, kind: altered, primary: want, subscriber: got, ahead: ahead[r]})
		}
	}
	for r, got := range subscriber {
		if _, exists := primary[r]; !exists {
			list = append(list, difference{row: r, kind: extra, subscriber: got, ahead: ahead[r]})
		}
	}
	slices.SortFunc(list, func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.id, b.id))
	})
	return list
}

// without returns the transactions of one history that another does not have.
func (j journal) without(other journal) journal {
	rest := journal{}
	for n, changes := range j {
		if _, has := other[n]; !has {
			rest[n] = changes
		}
	}
	return rest
}

// rows returns the rows that the transactions have changed.
func (j journal) rows() map[row]bool {
	rows := map[row]bool{}
	for n, changes := range j {
		rows[row{"journal", n}] = true
		for _, c := range changes {
			rows[c.row] = true
		}
	}
	return rows
}

// delivered counts what a consumer got: how often each transaction came, and with
// which changes.
type delivered map[int64]*delivery

// delivery is one transaction as a consumer got it.
type delivery struct {
	times   int
	changes map[change]bool
}

// add counts one arrival of a transaction.
func (d delivered) add(n int64, changes []change) {
	got := d[n]
	if got == nil {
		got = &delivery{changes: map[change]bool{}}
		d[n] = got
	}
	got.times++
	for _, c := range changes {
		got.changes[c] = true
	}
}

// unseen returns the changes of a history that a consumer never got, by
// transaction. The journal's own row is one of each transaction's changes.
func (d delivered) unseen(history journal) journal {
	lost := journal{}
	for n, changes := range history {
		own := change{inserted, row{"journal", n}}
		for _, c := range append(slices.Clone(changes), own) {
			if got := d[n]; got == nil || !got.changes[c] {
				lost[n] = append(lost[n], c)
			}
		}
	}
	return lost
}

// duplicates counts the transactions that came more than once.
func (d delivered) duplicates() int {
	count := 0
	for _, got := range d {
		if got.times > 1 {
			count++
		}
	}
	return count
}

// size counts all changes of a history.
func (j journal) size() int {
	n := 0
	for changes := range maps.Values(j) {
		n += len(changes) + 1
	}
	return n
}
