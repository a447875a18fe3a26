package pgbin

// hintedError is an error with advice. The advice is part of the text, since
// tests and the demo print errors as they are.
type hintedError struct {
	err  error
	hint string
}

func withHint(err error, hint string) error { return &hintedError{err: err, hint: hint} }

func (e *hintedError) Error() string { return e.err.Error() + " (hint: " + e.hint + ")" }
func (e *hintedError) Unwrap() error { return e.err }

// Hint returns a sentence that says what to do.
func (e *hintedError) Hint() string { return e.hint }
