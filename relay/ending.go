package relay

import (
	"errors"
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// ending is why the relay itself ends a session. The downstream is told in an
// ErrorResponse, so that a walreceiver logs a sentence and comes again.
type ending struct {
	code    string // SQLSTATE
	message string
	hint    string
	err     error // nil: nothing is wrong
}

func (e *ending) Error() string { return e.message }
func (e *ending) Unwrap() error { return e.err }
func (e *ending) Hint() string  { return e.hint }

// SQLSTATEs of the relay's own errors (errcodes.txt).
const (
	codeAdminShutdown     = "57P01"
	codeQueryCanceled     = "57014"
	codeConnectionFailure = "08006"
	codeProtocolViolation = "08P01"
	codeNotSupported      = "0A000"
	codeDataCorrupted     = "XX001"

	codeInvalidAuthorization = "28000"
	codeCannotConnectNow     = "57P03"
	codeTooManyConnections   = "53300"
)

func endShutdown() *ending {
	return &ending{code: codeAdminShutdown, message: "terminating connection because slotferry is shutting down"}
}

// faultError is a fault in the stream itself.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// endFault says how a fault in the stream ends the session.
func endFault(err error) *ending {
	e := &ending{code: codeProtocolViolation, message: "slotferry ends the session: " + err.Error(), err: err}
	switch {
	case errors.Is(err, errForeignZero):
		e.code = codeDataCorrupted
		e.hint = "Something upstream puts messages into the WAL stream that are not slotferry's. " +
			"A walreceiver would write them into a WAL segment."
	case errors.Is(err, errBinding):
		e.code, e.message, e.hint = codeInvalidAuthorization, errBinding.Error(), hintBinding
	case errors.Is(err, errNotPostgres):
		e.hint = "Check the host and port in the upstream conninfo."
	}
	return e
}

// endHeld ends what waits for what cannot come.
func endHeld(what string, d holdDecision) *ending {
	e := &ending{code: codeConnectionFailure, message: "slotferry ends " + what + ": its walsender is gone"}
	if d.Reason == HoldShutdown {
		e.code = codeAdminShutdown
		e.message = "slotferry ends " + what + ": the upstream is shutting down"
		e.hint = "These standbys have not flushed what comes next: " + strings.Join(d.By, ", ") + "."
	}
	return e
}

// endLost ends what is held back when one end of the session is gone.
func endLost(what string, err error) *ending {
	return &ending{code: codeConnectionFailure, message: "slotferry ends " + what + ": " + err.Error(), err: err}
}

// endCanceled ends what is held back at its client's request.
func endCanceled(what string) *ending {
	return &ending{code: codeQueryCanceled, message: "slotferry ends " + what + ": canceled at user request"}
}

// say writes the ErrorResponse. Only the goroutine that writes to the
// downstream calls it, at a frame boundary. Where TLS was asked for and there is
// none yet nothing is said: the words would begin the handshake, and wait for it.
func (e *ending) say(to *wire) {
	if to.unshaken() {
		return
	}
	m := protocol.ErrorResponse{Severity: protocol.SeverityFatal, Code: e.code, Message: e.message, Hint: e.hint}
	_ = to.write(m.Append(nil))
}
