// Command bench measures what the relay costs, against HAProxy as it comes and
// with buffers of 128 KiB, on one core that the whole chain shares: sender, proxy
// and receiver. Only so do figures repeat on a machine with few cores. Hold-back
// alone, where whole servers are in the chain, has all cores.
//
// The synthetic walsender and walreceiver are processes of this program that do
// nothing but blocking system calls. The real ones are PostgreSQL's. Every figure
// is taken in turn for each contestant, round by round and every other round
// backwards, and compared within the round; what is printed is the median of
// these ratios.
//
// It first builds and fetches all it needs, and then becomes the process that
// measures: on its core and, run by root, in a network namespace with Reno's
// congestion control. Where it cannot have that it says so and goes on.
package main
