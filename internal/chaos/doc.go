// Package chaos lets real clusters go through whatever can happen to them, and
// says what that cost their logical subscribers.
//
// A round is a pair of servers, or a cascade of three, with relay and helper between them, a subscriber
// with real subscriptions, consumers of test_decoding slots, and the traffic of
// package bank. Its Schedule, a pure function of a seed, says what breaks when:
// processes are killed and stopped, connections cut and stalled, clocks moved and
// disks filled. Each phase of a round ends in a failover or a switchover. At the
// end Judge compares what the last primary has with what each consumer got.
//
// The schedule is the same for the same seed; how the servers' processes run into
// it is not. A seed that failed once may have to be run a few times.
package chaos
