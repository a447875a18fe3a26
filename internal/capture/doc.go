// Package capture reads and writes capture files, whose format package protocol
// has. A Reader is given the file as it is and says where it is damaged or torn;
// a Writer appends to a file, masks what is secret, and begins another file where
// one is full.
package capture
