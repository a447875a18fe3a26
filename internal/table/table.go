// Package table prints text tables that people can read: columns aligned by what
// a terminal shows, and nothing in a cell that could do something to it.
package table

import (
	"io"
	"strings"
)

// Color is how a cell is shown where there is colour.
type Color string

// The colours, by what they say.
const (
	Plain Color = ""
	Good  Color = "\x1b[32m"
	Wait  Color = "\x1b[33m"
	Bad   Color = "\x1b[31m"
	Dim   Color = "\x1b[2m"
)

const reset = "\x1b[0m"

// gap is between two columns.
const gap = "  "

// Cell is one field of a table.
type Cell struct {
	Text  string
	Color Color
}

// Text makes a row of plain cells.
func Text(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, t := range texts {
		row[i].Text = t
	}
	return row
}

// Table is a header and rows. A row may be shorter than the header.
type Table struct {
	Header []string
	Right  []bool // columns aligned to the right; may be shorter than Header
	Rows   [][]Cell
	Color  bool // use colours
}

// Write prints the table. No line ends in spaces.
func (t *Table) Write(w io.Writer) error {
	rows := append([][]Cell{Text(t.Header...)}, t.Rows...)
	widths := make([]int, len(t.Header))
	for _, row := range rows {
		for i := range row[:min(len(row), len(widths))] {
			widths[i] = max(widths[i], Width(Printable(row[i].Text)))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		t.line(&out, row, widths)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (t *Table) line(out *strings.Builder, row []Cell, widths []int) {
	pending := "" // spaces that are written only when something follows
	for i, width := range widths {
		var c Cell
		if i < len(row) {
			c = row[i]
		}
		text := Printable(c.Text)
		fill := strings.Repeat(" ", max(width-Width(text), 0))
		switch {
		case text == "":
			pending += fill
		case i < len(t.Right) && t.Right[i]:
			out.WriteString(pending + fill + Paint(text, c.Color, t.Color))
			pending = ""
		default:
			out.WriteString(pending + Paint(text, c.Color, t.Color))
			pending = fill
		}
		pending += gap
	}
	out.WriteByte('\n')
}

// Paint puts text in a colour if there is colour.
func Paint(text string, c Color, colour bool) string {
	if !colour || c == Plain {
		return text
	}
	return string(c) + text + reset
}
