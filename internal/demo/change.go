package main

import (
	"fmt"
	"strings"
)

// operation is what was done to a row, in the word that test_decoding has for it.
type operation string

// The operations.
const (
	inserted operation = "INSERT"
	updated  operation = "UPDATE"
	deleted  operation = "DELETE"
)

// row names a row. Every table of the demo has the primary key id.
type row struct {
	table string
	id    int64
}

func (r row) String() string { return fmt.Sprintf("%s %d", r.table, r.id) }

// change is one row change of a transaction.
type change struct {
	op operation
	row
}

// String is how a change stands in the journal: "INSERT entry 7001".
func (c change) String() string { return fmt.Sprintf("%s %s", c.op, c.row) }

// parseChange reads what String wrote.
func parseChange(text string) (change, error) {
	var c change
	if _, err := fmt.Sscanf(text, "%s %s %d", &c.op, &c.table, &c.id); err != nil {
		return change{}, fmt.Errorf("read change %q: %w", text, err)
	}
	return c, nil
}

// parseDecoded reads a line of test_decoding that is neither BEGIN nor COMMIT:
//
//	table public.entry: INSERT: id[bigint]:7001 account[bigint]:12 ...
func parseDecoded(line string) (change, error) {
	rest, ok := strings.CutPrefix(line, "table public.")
	table, rest, hasOp := strings.Cut(rest, ": ")
	op, columns, hasColumns := strings.Cut(rest, ": ")
	c := change{op: operation(op), row: row{table: table}}
	if !ok || !hasOp || !hasColumns {
		return change{}, fmt.Errorf("read decoded change %q: want a row of a table", line)
	}
	if _, err := fmt.Sscanf(columns, "id[bigint]:%d", &c.id); err != nil {
		return change{}, fmt.Errorf("read decoded change %q: %w", line, err)
	}
	return c, nil
}
