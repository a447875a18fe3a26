package contain

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func goesWrong() error { panic(io.EOF) }

func TestPanicBecomesAnError(t *testing.T) {
	err := Do(goesWrong)
	var p *Panic
	if !errors.As(err, &p) || p.Value != io.EOF || !strings.Contains(string(p.Stack), "goesWrong") {
		t.Fatalf("%v, %+v", err, p)
	}
	if errors.Is(err, io.EOF) {
		t.Error("the panic passes for the error that it was made of")
	}
	if !Is(fmt.Errorf("copy: %w", err)) {
		t.Error("a panic is not known any more when it is wrapped")
	}
	if err := Do(func() error { return io.EOF }); err != io.EOF || Is(err) {
		t.Errorf("an error came back as %v", err)
	}
}

// Each panic is counted. It is logged when it is another than the last in its place,
// and when there was none for long.
func TestPanicsAreLoggedOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Panics
		var log strings.Builder
		do := func(where, value string) (lines int) {
			before := strings.Count(log.String(), "\n")
			if err := p.Do(where, zerolog.New(&log), func() error { panic(value) }); !Is(err) {
				t.Errorf("%v is no panic", err)
			}
			return strings.Count(log.String(), "\n") - before
		}
		for i, c := range []struct {
			after        time.Duration
			where, value string
			lines        int
		}{
			{0, "feed", "a", 1}, {0, "feed", "a", 0}, {0, "step", "a", 1}, {0, "feed", "b", 1}, {0, "feed", "a", 1},
			{fades - 1, "feed", "a", 0}, {fades - 1, "feed", "a", 0}, {fades, "feed", "a", 1}, {0, "step", "a", 1},
		} {
			time.Sleep(c.after)
			if got := do(c.where, c.value); got != c.lines {
				t.Errorf("%d: %d lines, want %d", i, got, c.lines)
			}
		}
		if err := p.Do("feed", zerolog.New(&log), func() error { return io.EOF }); err != io.EOF {
			t.Error(err)
		}
		if p.Count() != 9 {
			t.Errorf("counted %d, want 9", p.Count())
		}
		for _, want := range []string{`"where":"feed"`, `"stack":"goroutine `, `"hint":"Please report`, "a bug in slotferry: b"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s", want)
			}
		}
	})
}
