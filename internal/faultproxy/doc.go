// Package faultproxy is a TCP proxy that fails on request. Tests put it between
// two programs to stall, cut, or swallow what they say to each other.
//
// "Up" is the direction from the one that connects to the target, "Down" the
// other one. Faults hold for the whole proxy: for the connections that there are
// and, where the method says so, for those to come.
package faultproxy
