// Package contain keeps a panic on the slot side where it happened: it becomes the
// error of what was being done there, one step for one slot, one session, one call,
// and the retry that follows any error follows it, too. WAL and the other slots go on.
//
// It is for work that leaves nothing behind when it is given up. A pump and the
// helper's main loop are not run by it: their state may be broken then, and a new
// process begins with a sound one. Nor is everything a panic: what the Go runtime calls
// a fatal error, such as memory that is used up, ends the process from wherever it is.
package contain
