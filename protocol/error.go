package protocol

import (
	"errors"
	"fmt"
)

// The causes a MessageError can have. Truncated input is told apart from
// wrong input: a capture that ends in the middle of a message is not damaged.
var (
	ErrTruncated   = errors.New("message ends too early")
	ErrTrailing    = errors.New("bytes after the end of the message")
	ErrInvalid     = errors.New("field has a value that is not allowed")
	ErrType        = errors.New("wrong message type")
	ErrMagic       = errors.New("magic bytes missing")
	ErrVersion     = errors.New("unknown version")
	ErrChecksum    = errors.New("checksum does not match")
	ErrTooLarge    = errors.New("message exceeds its size limit")
	ErrFrameLength = errors.New("frame length field is out of range")
)

// MessageError reports which message could not be decoded and where. Its
// cause is one of the Err sentinels of this package.
type MessageError struct {
	Message string // PostgreSQL's own name: "XLogData", "HotStandbyFeedback", ...
	Offset  int    // where the refused field begins within the message body, in bytes
	Err     error
}

// Error says which message failed, at which byte, and why.
func (e *MessageError) Error() string {
	return fmt.Sprintf("decode %s at byte %d: %v", e.Message, e.Offset, e.Err)
}

// Unwrap returns the sentinel.
func (e *MessageError) Unwrap() error { return e.Err }
