package main

import (
	"fmt"
	"io"
	"time"
)

// timeline prints what happens, each line with the time since the start.
type timeline struct {
	out   io.Writer
	began time.Time
}

func newTimeline(out io.Writer) *timeline { return &timeline{out: out, began: time.Now()} }

func (t *timeline) say(format string, args ...any) {
	fmt.Fprintf(t.out, "%6.2f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
