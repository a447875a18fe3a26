package contain

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Panic is an error that was a panic. It does not unwrap to a panic value that is an
// error: what a caller expects of such an error is not what has happened.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic, a bug in slotferry: %v", p.Value) }

// Hint says what to do about every Panic.
const Hint = "Please report this, with the stack and the version. It is contained, and tried again."

// Do runs f. A panic in f is returned as a *Panic.
func Do(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Is reports whether err was a panic.
func Is(err error) bool { return errors.As(err, new(*Panic)) }
