// Package bank is the application that the demo and the chaos rounds run: writers
// whose transactions overlap, an account of every row change that was committed,
// and consumers that remember every row change they got. What a subscriber has
// lost is then a matter of comparing.
//
// Each transaction has a number that is used once, and writes it, with the list of
// its changes, into the table journal. So the journal of a server is its history,
// as true as its data, whatever a writer was told.
package bank
