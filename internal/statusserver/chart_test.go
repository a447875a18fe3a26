package statusserver

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestChartOfNothing(t *testing.T) {
	var h history
	h.add(lagging(time.Unix(1_700_000_000, 0), false))
	c := h.draw()
	if !c.Empty || len(c.Lines) != 0 || len(c.Rows) != 1 || c.Rows[0].Ready != "never" || c.Rows[0].Worst != "" {
		t.Errorf("chart is %+v", c)
	}
}

func TestChart(t *testing.T) {
	var h history
	start := time.Unix(1_700_000_000, 0)
	// Ten minutes: not ready in the first, a gap of one minute after the fifth.
	for i := range 60 {
		if i >= 30 && i < 36 {
			continue
		}
		h.add(lagging(start.Add(time.Duration(i)*historyStep), i >= 6, i*1024, 100))
	}
	c := h.draw()
	if c.Top != "64 kB" || c.Middle != "32 kB" {
		t.Errorf("axis: %s, %s", c.Top, c.Middle)
	}
	if len(c.Lines) != 2 || c.Lines[0].Name != "s0" || c.Lines[0].Now != "59 kB" || c.Lines[1].Worst != "100 B" {
		t.Fatalf("lines: %+v", c.Lines)
	}
	line := c.Lines[0].Path
	if strings.Count(line, "M") != 2 || !strings.HasPrefix(line, "M300 200.0h.5L301 196.9L") || !strings.HasSuffix(line, "L359 15.6") {
		t.Errorf("path is %s", line)
	}
	if fmt.Sprint(c.Bands) != "[{300 6}]" {
		t.Errorf("bands are %v", c.Bands)
	}
	want := []chartRow{
		{From: "5", To: "0", Worst: "59 kB", WorstOf: "s0", Ready: "all the time"},
		{From: "10", To: "5", Worst: "29 kB", WorstOf: "s0", Ready: "80 % of the time"},
	}
	if fmt.Sprint(c.Rows) != fmt.Sprint(want) {
		t.Errorf("rows are\n%+v, want\n%+v", c.Rows, want)
	}
}

// TestChartOfManySlots draws those that lag most and counts the others.
func TestChartOfManySlots(t *testing.T) {
	var h history
	lags := make([]int, 2*historySlots)
	for i := range lags {
		lags[i] = i
	}
	h.add(lagging(time.Unix(1_700_000_000, 0), true, lags...))
	c := h.draw()
	if len(c.Lines) != chartLines || c.Others != historySlots-chartLines || c.Lines[0].Name != fmt.Sprintf("s%d", historySlots-1) {
		t.Errorf("%d lines, %d others, first %+v", len(c.Lines), c.Others, c.Lines[0])
	}
}
