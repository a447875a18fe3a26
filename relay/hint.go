package relay

// hintedError is an error with advice for the operator, as PostgreSQL's have.
type hintedError struct {
	err  error
	hint string
}

func withHint(err error, hint string) error { return &hintedError{err: err, hint: hint} }

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// Hint returns a sentence that says what to do.
func (e *hintedError) Hint() string { return e.hint }
