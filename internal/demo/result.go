package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/rig"
	"github.com/slotferry/slotferry/protocol"
)

// errLoss ends a demo whose table shows a loss.
var errLoss = errors.New("rows are lost")

// shown is how many rows of each kind of trouble are printed.
const shown = 10

// result is what the demo found.
type result struct {
	major int
	mode  rig.Mode

	readyAfter time.Duration // both slots, from the subscription's birth on
	killed     time.Time
	away       time.Duration // from the kill until the subscriber streamed again
	before     map[string]protocol.LSN
	after      map[string]protocol.LSN
	report     *decoder.PromotionReport

	subscriberAt protocol.LSN // its own position in a's history
	ahead        int          // transactions that it has and b never had

	acked        int // commits that a acknowledged
	ackedGone    int // of these, not on b
	doubtfulGone int // commits that were under way at the kill and are not on b

	rowsPrimary, rowsSubscriber int
	differences                 []bank.Difference

	transactions, changes int // of the new primary's history
	consumed, duplicates  int // transactions that the consumer got, and got more than once
	unseen                bank.Journal
}

// count returns how many rows differ so, and with the subscriber ahead or not.
func (r *result) count(kind bank.DifferenceKind, ahead bool) int {
	n := 0
	for _, d := range r.differences {
		if d.Kind == kind && d.Ahead == ahead {
			n++
		}
	}
	return n
}

// usable reports whether the promotion left every slot to its subscriber.
func (r *result) usable() bool {
	found := 0
	for _, p := range r.report.Slots {
		if p.Usable {
			found++
		}
	}
	return found == len(slots)
}

// good reports whether nothing is lost. Rows that differ since the subscriber has
// commits that the new primary never had are no loss, and are shown.
func (r *result) good() bool {
	lost := len(r.unseen) + r.count(bank.Missing, false) + r.count(bank.Extra, false) + r.count(bank.Altered, false)
	return lost == 0 && r.usable()
}

func (r *result) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what string, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "\nPostgreSQL %d, %s\n", r.major, r.mode)
	line("slots ready on the standby", "%s after their birth", seconds(r.readyAfter))
	line("subscriber without a primary", "%s", seconds(r.away))
	fmt.Fprint(w, "\nsubscription (every row compared)\n")
	line("rows on the new primary", "%d", r.rowsPrimary)
	line("rows on the subscriber", "%d", r.rowsSubscriber)
	line("missing", "%d", r.count(bank.Missing, false))
	line("extra", "%d", r.count(bank.Extra, false))
	line("different", "%d", r.count(bank.Altered, false))
	fmt.Fprint(w, "\ntest_decoding consumer (every change of the new primary's history looked for)\n")
	line("transactions of the new primary", "%d with %d changes", r.transactions, r.changes)
	line("missing changes", "%d", r.unseenChanges())
	line("transactions that came twice", "%d", r.duplicates)
	fmt.Fprint(w, "\nnot slotferry's to keep\n")
	line("acknowledged, never reached the standby", "%d of %d before the kill (replication is asynchronous)", r.ackedGone, r.acked)
	line("only the subscriber has", "%d transactions; %d rows differ by them", r.ahead,
		r.count(bank.Missing, true)+r.count(bank.Extra, true)+r.count(bank.Altered, true))
	w.Flush()
	r.printSlots(out)
	r.printTrouble(out)
}

func (r *result) unseenChanges() int {
	n := 0
	for _, changes := range r.unseen {
		n += len(changes)
	}
	return n
}

// printSlots shows where each slot was, and where its subscriber went on.
func (r *result) printSlots(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nSLOT\tBEFORE THE KILL\tLAST KNOWN\tON NEW PRIMARY\tFELL BACK BY\tNOW\tSTATE\n")
	for _, p := range r.report.Slots {
		state := "usable"
		switch {
		case !p.Usable:
			state = fmt.Sprintf("not usable: %s", p.Reason)
		case p.Ahead != nil:
			state = fmt.Sprintf("usable, subscriber ahead to %v", p.Ahead.To)
		}
		back := max(r.before[p.Name], p.Local) - p.Local
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%s\t%v\t%s\n", p.Name, r.before[p.Name], p.Last, p.Local,
			human.Bytes(uint64(back)), r.after[p.Name], state)
	}
	w.Flush()
}

// printTrouble ends the table with the verdict, and names rows.
func (r *result) printTrouble(out io.Writer) {
	fmt.Fprintln(out)
	n := 0
	for _, d := range r.differences {
		if !d.Ahead && n < shown {
			n++
			fmt.Fprintf(out, "%s: %v\n  new primary: %.100s\n  subscriber:  %.100s\n", d.Kind, d.Row, d.Primary, d.Subscriber)
		}
	}
	n = 0
	for id, changes := range r.unseen {
		if n++; n <= shown {
			fmt.Fprintf(out, "the consumer never got %v of transaction %d\n", changes[0], id)
		}
	}
	if r.good() {
		fmt.Fprintln(out, "Nothing that the new primary has is lost.")
		return
	}
	fmt.Fprintln(out, "LOSS: see above.")
}
