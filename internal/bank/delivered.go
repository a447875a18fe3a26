package bank

// Delivered counts what a consumer got: how often each transaction came, and with
// which changes.
type Delivered map[int64]*Delivery

// Delivery is one transaction as a consumer got it.
type Delivery struct {
	Times   int
	Changes map[Change]bool
}

// Add counts one arrival of a transaction.
func (d Delivered) Add(n int64, changes []Change) {
	got := d[n]
	if got == nil {
		got = &Delivery{Changes: map[Change]bool{}}
		d[n] = got
	}
	got.Times++
	for _, c := range changes {
		got.Changes[c] = true
	}
}

// Unseen returns the changes of a history that a consumer never got, by
// transaction.
func (d Delivered) Unseen(history Journal) Journal {
	lost := Journal{}
	for n := range history {
		for _, c := range history.Changes(n) {
			if got := d[n]; got == nil || !got.Changes[c] {
				lost[n] = append(lost[n], c)
			}
		}
	}
	return lost
}

// Duplicates counts the transactions that came more than once.
func (d Delivered) Duplicates() int {
	count := 0
	for _, got := range d {
		if got.Times > 1 {
			count++
		}
	}
	return count
}
