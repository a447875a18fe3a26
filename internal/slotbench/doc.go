// Command slotbench measures how logical slots get to a standby by slotferry, and by
// PostgreSQL's own slot sync worker (sync_replication_slots, 17 and newer), on the
// same load: one primary with failover slots whose subscribers stream all the time,
// pgbench at a fixed rate, and two standbys of that primary. One of them is fed by
// relay and helper, the other one by the worker. So both see the same slots move at
// the same moments, are asked at the same moments, and lose the same primary by the
// same kill -9: every figure is a pair.
//
// What is measured, for each number of slots:
//
//   - time from the last creation of a slot until all are ready;
//   - position lag, sampled ten times a second: for how long the subscriber has
//     confirmed more than the standby's slot shows, and how many bytes more;
//   - CPU time of the helper and its sessions, and of the worker; on the primary, of
//     the session that each reads slots by;
//   - time from a subscriber's confirmation until the slot message that says so;
//   - time from the return of CREATE_REPLICATION_SLOT until the slot is ready, for
//     slots born one after another;
//   - after kill -9 of the primary and promotion of both standbys: rows that each
//     subscriber is sent again, and rows that it never gets.
package main
