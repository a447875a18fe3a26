package configfile

import "fmt"

// Place is where something stands in a file. Line and Column count from 1; 0 is
// not known.
type Place struct {
	Path         string
	Line, Column int
}

// String is what editors and compilers understand: file:line:column.
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.Path
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.Path, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.Path, p.Line, p.Column)
}

// Entry is one setting of a file.
type Entry struct {
	Key   string
	At    Place // of the key
	Value Value
}

// Value is what stands behind a key.
type Value struct {
	At   Place
	List bool     // written as a list, be it of one
	Text []string // the scalars; exactly one unless List

	// Bool is set for the one scalar that YAML reads as true or false.
	Bool bool
}

// Error is one thing that is wrong in a file.
type Error struct {
	At   Place
	Key  string // "" when it is about no setting
	Text string
	hint string
}

// Error names the place, the setting and what is wrong with it.
func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%v: %s", e.At, e.Text)
	}
	return fmt.Sprintf("%v: %s: %s", e.At, e.Key, e.Text)
}

// Hint says what to write instead, "" where the error says it.
func (e *Error) Hint() string { return e.hint }
