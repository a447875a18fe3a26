package bank

import (
	"cmp"
	"maps"
	"slices"
)

// Contents are all rows of a database as PostgreSQL writes them, by name.
type Contents map[Row]string

// Journal is the history of a database: the row changes of each committed
// transaction, by the transaction's number. Every transaction of a Traffic writes
// its own entry, so the journal is as true as the data.
type Journal map[int64][]Change

// DifferenceKind says how a row differs.
type DifferenceKind string

// The kinds of difference.
const (
	Missing DifferenceKind = "missing" // the primary has it, the subscriber does not
	Extra   DifferenceKind = "extra"   // the subscriber has it, the primary does not
	Altered DifferenceKind = "altered" // both have it, with different values
)

// Difference is a row in which a subscriber does not agree with the primary.
type Difference struct {
	Row
	Kind       DifferenceKind
	Primary    string
	Subscriber string

	// Ahead: a transaction that the subscriber got and the standby did not has
	// changed this row. That is no loss of a slot: the new primary never had the
	// commit.
	Ahead bool
}

// Compare looks at every row of both sides.
func Compare(primary, subscriber Contents, ahead map[Row]bool) []Difference {
	var list []Difference
	for r, want := range primary {
		got, exists := subscriber[r]
		switch {
		case !exists:
			list = append(list, Difference{Row: r, Kind: Missing, Primary: want, Ahead: ahead[r]})
		case got != want:
			list = append(list, Difference{Row: r, Kind: Altered, Primary: want, Subscriber: got, Ahead: ahead[r]})
		}
	}
	for r, got := range subscriber {
		if _, exists := primary[r]; !exists {
			list = append(list, Difference{Row: r, Kind: Extra, Subscriber: got, Ahead: ahead[r]})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Without returns the transactions of one history that another does not have.
func (j Journal) Without(other Journal) Journal {
	rest := Journal{}
	for n, changes := range j {
		if _, has := other[n]; !has {
			rest[n] = changes
		}
	}
	return rest
}

// Rows returns the rows that the transactions have changed.
func (j Journal) Rows() map[Row]bool {
	rows := map[Row]bool{}
	for n, changes := range j {
		rows[Row{journalTable, n}] = true
		for _, c := range changes {
			rows[c.Row] = true
		}
	}
	return rows
}

// Changes returns the changes of a transaction. The journal's own row is one.
func (j Journal) Changes(n int64) []Change {
	return append(slices.Clone(j[n]), Change{Inserted, Row{journalTable, n}})
}

// Size counts all changes of a history.
func (j Journal) Size() int {
	n := 0
	for changes := range maps.Values(j) {
		n += len(changes) + 1
	}
	return n
}
