// Package relay is the proxy on a physical replication connection.
//
// A Relay accepts connections, dials the upstream for each, and forwards bytes
// both ways. What makes it more than a pipe is its Mode:
//
//   - ModeSplice stands in front of a primary (or of a cascading standby). On
//     connections that asked for it by the startup parameter
//     "_pq_.slotferry", and on no other, it splices slot messages into the
//     physical stream, takes the helper's reports out of the other direction,
//     and answers SLOT_STATE itself.
//   - ModeStrip stands in front of a standby's walreceiver. It asks for slot
//     messages, takes them out of the stream, and sends the helper's reports
//     back. The walreceiver sees pure WAL.
//   - ModePlain splices and strips nothing.
//
// # What holds
//
// I-12: StandbyStatusUpdate and HotStandbyFeedback are forwarded byte for byte.
// The relay composes none, delays none, merges none, alters none.
//
// I-13: strip(splice(s)) = s for every stream s, and a downstream that did not
// ask gets the upstream's bytes exactly.
//
// I-19: under hold-back, and on logical streams alone, a keepalive's walEnd may be
// lowered, messages wait, and keepalives are added. Nothing else of them is changed.
//
// Besides, in every mode: where the relay ends TLS, channel binding is taken out of
// AuthenticationSASL; and a session that the relay ends gets an ErrorResponse of its own.
//
// WAL comes first: whatever fails on the slot side is counted and logged once
// per change of state, and the physical stream goes on.
//
// # How it is built
//
// Deciding is pure. A Flow is one direction of a session: bytes in, spans to
// forward and frames taken out as values, no I/O. A Conversation is what both
// directions know together. Doing is thin: two pumps a session, each with one
// buffer, each the only writer of its connection.
//
// A SlotSource reads the upstream's slots over one ordinary SQL connection and
// hands the newest SlotMessage to every session's mailbox. A slow standby
// costs staleness, never memory.
//
// Errors an operator can act on have a method Hint() string.
package relay
