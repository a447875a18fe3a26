// Package decoder is the standby's side of slotferry. It takes slot messages
// in, and keeps the standby's own logical slots such that a subscriber can go
// on from them after a promotion without losing a row.
//
// The work is split in two. Deciding is pure: Decide looks at a View (what the
// upstream said, what the standby has, what the ledger records) and returns a
// Decision that can be printed: a state and a reason for every slot, and the
// steps to take. Doing is thin: Helper reads the View from the servers, runs the
// steps in sessions of their own, and looks again.
//
// # Why a slot is copied and not created
//
// A logical slot created on a standby is born at the position where decoding
// becomes consistent there, usually later than what the subscriber has confirmed
// upstream. Everything between is missing from it. So the helper creates one
// temporary slot, the anchor, and copies it under the real name once the
// upstream slot has passed the anchor's position. A slot with a user's name
// therefore exists on the standby only if it is safe to fail over to.
//
// # Letters used in comments
//
//	U  confirmed_flush_lsn of the upstream's slot, from the latest slot message
//	L  confirmed_flush_lsn of the standby's slot of the same name
//	R  the standby's replay position
//	S  the position where a promotion switched timelines
package decoder
