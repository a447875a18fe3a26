// Package poll waits for a condition with a deadline. On a timeout it says what
// was waited for and the last state that was seen, so that a failed wait in a
// test explains itself.
package poll

import (
	"context"
	"fmt"
	"time"
)

// Checks begin close together, since most conditions hold soon, and spread out
// so that a long wait costs little.
const (
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// TimeoutError reports a condition that did not hold in time.
type TimeoutError struct {
	What  string        // the condition that was waited for
	State string        // the last state that the check reported
	After time.Duration // how long the wait was
	Err   error         // the cause of the context's end
}

func (e *TimeoutError) Error() string {
	msg := fmt.Sprintf("wait for %s: gave up after %s", e.What, e.After.Round(time.Millisecond))
	if e.State != "" {
		msg += ", last state: " + e.State
	}
	return msg
}

func (e *TimeoutError) Unwrap() error { return e.Err }

// Until calls check until it reports done, and returns nil then. It gives up
// with a TimeoutError when timeout has passed or ctx ends, whichever is first.
// The state that check returns is for people: it goes into that error. check is
// called at least once, and gets a context that ends with the wait.
func Until(ctx context.Context, timeout time.Duration, what string,
	check func(ctx context.Context) (done bool, state string)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	var last string
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		done, state := check(ctx)
		if done {
			return nil
		}
		// A check that was itself cut short by the deadline knows less than the
		// one before it.
		if last == "" || ctx.Err() == nil {
			last = state
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &TimeoutError{What: what, State: last, After: time.Since(began), Err: context.Cause(ctx)}
		}
	}
}

// TB is the part of testing.TB that Require needs.
type TB interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

// Require is Until for tests: it ends the test when the condition does not hold
// in time.
func Require(t TB, timeout time.Duration, what string, check func(ctx context.Context) (done bool, state string)) {
	t.Helper()
	if err := Until(t.Context(), timeout, what, check); err != nil {
		t.Fatal(err)
	}
}
