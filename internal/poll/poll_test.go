package poll

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := Until(t.Context(), time.Second, "three calls", func(context.Context) (bool, string) {
			calls++
			return calls == 3, fmt.Sprint(calls)
		})
		if err != nil || calls != 3 {
			t.Fatalf("Until = %v after %d calls, want nil after 3", err, calls)
		}
	})
}

func TestUntilTimeoutNamesLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Until(t.Context(), time.Second, "the moon", func(ctx context.Context) (bool, string) {
			if ctx.Err() != nil {
				return false, "cut short"
			}
			return false, "crescent"
		})
		var timeout *TimeoutError
		if !errors.As(err, &timeout) || timeout.State != "crescent" {
			t.Fatalf("Until = %v, want a TimeoutError with the last state", err)
		}
		if want := "wait for the moon: gave up after 1s, last state: crescent"; err.Error() != want {
			t.Errorf("message %q, want %q", err, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is not DeadlineExceeded", err)
		}
	})
}

func TestUntilEndsWithContext(t *testing.T) {
	cause := errors.New("the test is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	calls := 0
	err := Until(ctx, time.Hour, "nothing", func(context.Context) (bool, string) { calls++; return false, "" })
	if !errors.Is(err, cause) || calls != 1 {
		t.Fatalf("Until = %v after %d calls, want the cause after 1", err, calls)
	}
}
