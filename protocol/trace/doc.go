// Package trace follows PostgreSQL connections and says what each message on
// them is: one line for people, after libpq's PQtrace, or one JSON object for
// programs. It is fed bytes of both directions as they were captured, or as they
// come from a live stream, and is pure: bytes in, Messages out, no I/O, no clock.
// Its memory is constant, whatever the bytes say.
//
// A Session follows one connection. Each of its two flows finds the frames; the
// Conversation, which both share, knows what a frame means where it stands. A
// Message describes itself through an encoder, once for both forms of output.
//
// Where bytes are not frames the flow says so with a Break, looks for the next
// message, and marks what is between with a Gap. Every byte fed is in exactly
// one Message: the lengths of a session's Messages add up to its bytes.
package trace
