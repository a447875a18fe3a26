// Package cluster runs real PostgreSQL servers for tests and for the demo. It
// trades every safety for speed (fsync is off), and a primary with a standby is
// up in about a second:
//
//	primary, err := cluster.Start(ctx, cluster.Config{Bin: inst})
//	standby, err := primary.Standby(ctx, cluster.StandbyConfig{SlotName: "standby"})
//
// The result of initdb is kept as a template and copied for each server. The
// copy gets a system identifier of its own, so that servers differ as they do in
// life.
//
// # Users
//
// PostgreSQL refuses to run as root. When the calling process is root, servers
// run as the user postgres if there is one, else as nobody, and own their
// directories.
//
// # How servers end
//
// Each postmaster gets PR_SET_PDEATHSIG with SIGKILL: when the calling process
// dies, however that happens, its servers die, and backends end themselves when
// their postmaster is gone. Linux ties that signal to the thread that forked, not
// to the process. So the goroutine that forks a postmaster locks its thread and
// keeps it until the postmaster has ended (process.go). A paused server would not
// notice, so Pause starts a guard that kills it (pause.go).
//
// Every wait has a deadline: that of the context, and where it has none, a
// minute.
package cluster
