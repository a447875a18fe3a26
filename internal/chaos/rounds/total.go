package main

import (
	"fmt"

	"github.com/slotferry/slotferry/internal/chaos"
	"github.com/slotferry/slotferry/internal/human"
)

// total adds up what rounds have shown.
type total struct {
	Rounds, Unplayable          int
	Lost, Extra, Stuck, Overdue int // rounds with at least one

	Transactions, Delivered, Twice, Moved, Measured, Told int
	Again, Bound                                          uint64
}

func (t *total) add(v *chaos.Verdict, err error) {
	t.Rounds++
	if err != nil {
		t.Unplayable++
	}
	for _, fault := range []struct {
		lines []string
		count *int
	}{{v.Lost, &t.Lost}, {v.Extra, &t.Extra}, {v.Stuck, &t.Stuck}, {v.Overdue, &t.Overdue}} {
		if len(fault.lines) > 0 {
			*fault.count++
		}
	}
	t.Transactions += v.Transactions
	t.Delivered += v.Delivered
	t.Twice += v.Twice
	t.Moved += v.Moved
	t.Measured += v.Measured
	t.Told += len(v.Told)
	t.Again += uint64(v.Again)
	t.Bound += uint64(v.Bound)
}

func (t *total) faults() int { return t.Lost + t.Extra + t.Stuck + t.Overdue + t.Unplayable }

func (t *total) String() string {
	return fmt.Sprintf(`
%d rounds: %d lost, %d extra, %d stuck, %d overdue, %d could not be played
%d transactions, delivered %d times, %d of them twice
%d slots moved to a new primary, %d of them held against what their helper knew; %d consumers told that their slot is not there
%s of WAL sent again after promotions, of which %s could not be known
`, t.Rounds, t.Lost, t.Extra, t.Stuck, t.Overdue, t.Unplayable, t.Transactions, t.Delivered, t.Twice, t.Moved, t.Measured, t.Told,
		human.Bytes(t.Again), human.Bytes(t.Bound))
}
