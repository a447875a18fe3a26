package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/chaos"
)

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		env    map[string]string
		rounds int
		majors int
		short  bool
		bad    bool
	}{
		{env: nil, rounds: 1, majors: 3},
		{env: map[string]string{"ROUNDS": "200", "SEED": "18446744073709551615", "PG": "all"}, rounds: 200, majors: 3},
		{env: map[string]string{"PG": "16", "SHORT": "1"}, rounds: 1, majors: 1, short: true},
		{env: map[string]string{"ROUNDS": "0"}, bad: true},
		{env: map[string]string{"JOBS": "many"}, bad: true},
		{env: map[string]string{"SEED": "-1"}, bad: true},
		{env: map[string]string{"PG": "15"}, bad: true},
	} {
		o, err := readOptions(func(name string) string { return test.env[name] })
		if (err != nil) != test.bad || !test.bad && (o.rounds != test.rounds || len(o.limits.Majors) != test.majors || o.limits.Short != test.short) {
			t.Errorf("%v is read as %+v, %v", test.env, o, err)
		}
	}
}

// A round played again has the schedule that it had.
func TestCommandPlaysTheSameRound(t *testing.T) {
	for _, env := range []map[string]string{{}, {"PG": "16"}, {"PG": "18", "SHORT": "1"}, {"SHORT": "1"}} {
		o, err := readOptions(func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		p := player{options: o}
		again := map[string]string{"SEED": "77"}
		for _, word := range strings.Fields(p.again()) {
			name, value, _ := strings.Cut(word, "=")
			again[name] = value
		}
		second, err := readOptions(func(name string) string { return again[name] })
		if err != nil {
			t.Fatal(err)
		}
		was, is := chaos.NewSchedule(77, o.limits), chaos.NewSchedule(second.seed, second.limits)
		if was.String() != is.String() {
			t.Errorf("%v: it was\n%sand is with %q\n%s", env, was.String(), p.again(), is.String())
		}
	}
}

// A round counts for each kind of fault once, however many lines that has.
func TestTotal(t *testing.T) {
	var total total
	total.add(&chaos.Verdict{Lost: []string{"a", "b"}, Stuck: []string{"c"}, Transactions: 5, Moved: 2}, nil)
	total.add(&chaos.Verdict{Transactions: 7}, nil)
	total.add(&chaos.Verdict{}, errors.New("no server"))
	if total.Rounds != 3 || total.Lost != 1 || total.Stuck != 1 || total.Unplayable != 1 || total.faults() != 3 || total.Transactions != 12 {
		t.Errorf("total is %+v", total)
	}
	for _, want := range []string{"3 rounds: 1 lost, 0 extra, 1 stuck, 0 overdue, 1 could not be played", "12 transactions"} {
		if !strings.Contains(total.String(), want) {
			t.Errorf("%q is not in:\n%s", want, total.String())
		}
	}
}
