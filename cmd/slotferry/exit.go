package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/conninfo"
)

// The exit statuses, a contract for scripts.
const (
	exitOK          = 0 // done, or ready
	exitFailed      = 1 // tried and failed, or not ready
	exitUnreachable = 2 // no server reached
	exitUsage       = 3 // bad usage; nothing was started
)

// statusError gives an error its exit status. An error without one is
// exitFailed.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// errNotReady ends a command whose result was already printed and is: not ready.
var errNotReady = &statusError{exitFailed, nil}

// errNoneReached ends a command whose result was already printed and shows that
// nobody was reached.
var errNoneReached = &statusError{exitUnreachable, nil}

// errPrinted ends a command whose result was already printed and was all that was
// asked for.
var errPrinted = &statusError{exitOK, nil}

func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{exitUsage, err}
}

// hinted is an error with advice for the operator.
type hinted struct {
	err  error
	hint string
}

func withHint(err error, hint string) error { return &hinted{err, hint} }

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }
func (e *hinted) Hint() string  { return e.hint }

// hintOf returns the advice in an error, "" where there is none.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// report prints an error, each problem of a joined one for itself, and returns
// the exit status.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	status := exitFailed
	var coder cli.ExitCoder
	if errors.As(err, &coder) {
		status, err = exitUsage, coder // of urfave/cli itself: it only knows usage
	}
	var s *statusError
	if errors.As(err, &s) {
		status, err = s.status, s.err
	}
	for _, problem := range problems(err) {
		narrow(w, "slotferry: "+oneLine(problem.Error()))
		if hint := hintOf(problem); hint != "" {
			narrow(w, "hint: "+oneLine(hint))
		}
	}
	return status
}

// narrow prints one sentence in lines of at most helpWidth columns, the further
// ones indented. A single long word, as a path, stays whole.
func narrow(w io.Writer, text string) {
	const indent = "  "
	for i, line := range wrap(text, helpWidth-len(indent)) {
		if i > 0 {
			line = indent + line
		}
		fmt.Fprintln(w, line)
	}
}

// problems takes joined errors apart.
func problems(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || strings.Count(err.Error(), "\n") == 0 {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, problems(e)...)
	}
	return list
}

// oneLine keeps one problem on one line, and any conninfo in it without its
// secret.
func oneLine(text string) string {
	return conninfo.Redact(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// withoutStatus takes an error's exit status off.
func withoutStatus(err error) error {
	var s *statusError
	if errors.As(err, &s) {
		return s.err
	}
	return err
}
