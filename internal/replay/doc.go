// Package replay serves a capture as the upstream that was recorded would: it
// answers what the downstream asks with what was answered then. It is for tests,
// and for showing a fault to somebody who does not have the server.
package replay
