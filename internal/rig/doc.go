// Package rig puts real servers and slotferry processes together: pairs of nodes,
// each a server with a relay in front of it and a helper beside it, as they stand
// in a machine room. The failover tests and the demo run on it.
package rig
