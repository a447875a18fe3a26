package statusserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slotferry/slotferry/internal/human"
)

// The drawing's own units: one wide for each step, and so many high.
const chartHeight = 200

// chartLines is how many slots have a line of their own: those that lagged most.
const chartLines = 5

// chart is the last hour as a drawing and as a table. What it says in one it says
// in the other.
type chart struct {
	Width, Height int
	Top, Middle   string      // what the upper edge and the middle stand for
	Lines         []chartLine // most lag first
	Others        int         // slots without a line
	Bands         []chartBand // when the process was not ready
	Rows          []chartRow  // newest first
	Empty         bool        // no step knows of a slot
}

// chartLine is one slot: a path, which has gaps where nothing is known.
type chartLine struct {
	Name, Database string
	Path           string
	Now, Worst     string
	Style          int // 1 to chartLines: colour and dashes
}

// chartBand is a span of time, in steps from the left edge.
type chartBand struct{ X, Width int }

// chartRow is five minutes.
type chartRow struct {
	From, To string // minutes ago
	Worst    string // most lag of any slot, "" when there was none
	WorstOf  string
	Ready    string
}

// rowSteps is how many steps a row of the table stands for: five minutes.
const rowSteps = 30

// draw makes the chart. It is empty where no slot was ever seen.
func (h *history) draw() *chart {
	c := &chart{Width: historySteps, Height: chartHeight}
	steps := since(h.newest, &h.steps)
	lines := h.worstFirst()
	c.Others = max(len(lines)-chartLines, 0)
	lines = lines[:min(len(lines), chartLines)]
	top := int64(1)
	for _, l := range lines {
		top = max(top, l.worst)
	}
	top = roundUp(top)
	c.Top, c.Middle = human.Bytes(uint64(top)), human.Bytes(uint64(top/2))
	for i, l := range lines {
		now := "unknown"
		if last := l.lags[historySteps-1]; last != noLag {
			now = human.Bytes(uint64(last))
		}
		c.Lines = append(c.Lines, chartLine{
			Name: l.key.name, Database: l.key.database, Path: path(l.lags, top), Now: now,
			Worst: human.Bytes(uint64(l.worst)), Style: i + 1,
		})
	}
	c.Empty = len(lines) == 0
	c.Bands = bands(steps)
	c.Rows = rows(steps)
	return c
}

// slotLine is one slot's last hour.
type slotLine struct {
	key   slotKey
	lags  []int64
	worst int64
}

func (h *history) worstFirst() []slotLine {
	var lines []slotLine
	for key, ring := range h.slots {
		l := slotLine{key: key, lags: since(h.newest, ring)}
		l.worst = slices.Max(l.lags)
		if l.worst != noLag {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b slotLine) int {
		return cmp.Or(cmp.Compare(b.worst, a.worst), a.key.compare(b.key))
	})
	return lines
}

// roundUp gives the axis an end that reads well: a power of two, from 8 kB on.
func roundUp(n int64) int64 {
	top := int64(8 << 10)
	for top < n {
		top *= 2
	}
	return top
}

// path draws a line, anew behind each gap. A step alone is a short stroke.
func path(lags []int64, top int64) string {
	var b strings.Builder
	drawn := false
	for x, lag := range lags {
		if lag == noLag {
			drawn = false
			continue
		}
		y := chartHeight - float64(lag)/float64(top)*chartHeight
		if drawn {
			fmt.Fprintf(&b, "L%d %.1f", x, y)
			continue
		}
		fmt.Fprintf(&b, "M%d %.1fh.5", x, y)
		drawn = true
	}
	return b.String()
}

// bands joins the steps in which the process was not ready.
func bands(steps []moment) []chartBand {
	var list []chartBand
	for x, m := range steps {
		switch n := len(list); {
		case !m.seen || m.ready:
		case n > 0 && list[n-1].X+list[n-1].Width == x:
			list[n-1].Width++
		default:
			list = append(list, chartBand{x, 1})
		}
	}
	return list
}

func rows(steps []moment) []chartRow {
	var list []chartRow
	for to := historySteps; to > 0; to -= rowSteps {
		r := chartRow{From: minutes(historySteps - to + rowSteps), To: minutes(historySteps - to)}
		worst, seen, notReady := int64(noLag), 0, 0
		for _, m := range steps[to-rowSteps : to] {
			if !m.seen {
				continue
			}
			seen++
			if !m.ready {
				notReady++
			}
			if m.worst > worst {
				worst, r.WorstOf = m.worst, m.worstOf.name
			}
		}
		if seen == 0 {
			break // what lies further back is not known either
		}
		if worst != noLag {
			r.Worst = human.Bytes(uint64(worst))
		}
		switch notReady {
		case 0:
			r.Ready = "all the time"
		case seen:
			r.Ready = "never"
		default:
			r.Ready = fmt.Sprintf("%d %% of the time", 100-max(100*notReady/seen, 1))
		}
		list = append(list, r)
	}
	return list
}

func minutes(steps int) string { return fmt.Sprint(steps * int(historyStep.Seconds()) / 60) }
