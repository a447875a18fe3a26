package bank

import (
	"fmt"
	"strings"
)

// Operation is what was done to a row, in the word that test_decoding has for it.
type Operation string

// The operations.
const (
	Inserted Operation = "INSERT"
	Updated  Operation = "UPDATE"
	Deleted  Operation = "DELETE"
)

// Row names a row. Every table has the primary key id.
type Row struct {
	Table string
	ID    int64
}

func (r Row) String() string { return fmt.Sprintf("%s %d", r.Table, r.ID) }

// Change is one row change of a transaction.
type Change struct {
	Op Operation
	Row
}

// String is how a change stands in the journal: "INSERT entry 7001".
func (c Change) String() string { return fmt.Sprintf("%s %s", c.Op, c.Row) }

// ParseChange reads what String wrote.
func ParseChange(text string) (Change, error) {
	var c Change
	if _, err := fmt.Sscanf(text, "%s %s %d", &c.Op, &c.Table, &c.ID); err != nil {
		return Change{}, fmt.Errorf("read change %q: %w", text, err)
	}
	return c, nil
}

// parseDecoded reads a line of test_decoding that is neither BEGIN nor COMMIT:
//
//	table public.entry: INSERT: id[bigint]:7001 account[bigint]:12 ...
func parseDecoded(line string) (Change, error) {
	rest, ok := strings.CutPrefix(line, "table public.")
	table, rest, hasOp := strings.Cut(rest, ": ")
	op, columns, hasColumns := strings.Cut(rest, ": ")
	c := Change{Op: Operation(op), Row: Row{Table: table}}
	if !ok || !hasOp || !hasColumns {
		return Change{}, fmt.Errorf("read decoded change %q: want a row of a table", line)
	}
	if _, err := fmt.Sscanf(columns, "id[bigint]:%d", &c.ID); err != nil {
		return Change{}, fmt.Errorf("read decoded change %q: %w", line, err)
	}
	return c, nil
}
