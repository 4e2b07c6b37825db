// Package soak holds the soak test: everything that the API offers, at once, on a real
// cluster, while its nodes are killed, halted and restarted; and then a look at what is
// left. It has tests only. It needs no privileges: the nodes listen on loopback.
//
// # What runs
//
// Three `txmgr server` processes with TLS and tokens, a private PostgreSQL ("bank"), a
// private MariaDB ("savings"), and a web service ("vault") in the test's own process.
// Applications move money between the three with the SDK. Others make every call of
// [client.Client]: reads, lists, watches, waits, sessions, votes, backups, what
// operators do. Most have little time: their contexts end by themselves, at random,
// while entries are applied. Clients speak to one node or to all of them, by pipe or
// with a request for each call. Many transactions and sessions are abandoned.
//
// Meanwhile the leader is killed, followers are halted, all nodes are restarted one
// after the other, leadership is handed over; and the web service answers 500, or hangs.
//
// # What fails it
//
//  1. A stall: for 5 s no node has acknowledged a write, though one is asked of each of
//     them all the time. While a fault has made an election necessary, electing may take
//     3 s more. Time in which the machine itself stood still does not count; see below.
//  2. An answer that the table of calls does not allow: see [mayAnswer] and [callError.isCallerTimeout].
//     "Unavailable" and "in doubt" need a reason: a fault or an election at that moment,
//     or the end of the caller's own time.
//  3. Money made or lost, half a transfer, one that was acknowledged and is not there,
//     or one that is there and was answered with [txn.ErrRolledBack].
//  4. Growth: goroutines, file descriptors, memory, kept outcomes, or the data
//     directory, compared between two quiet points, one before the load and one
//     after it; see [resourceUse] for the bounds.
//  5. Anything open, undone, prepared or in doubt after the load; nodes that do not
//     agree; a process that ended by itself.
//  6. Too little: fewer transfers or calls than any machine does, a call that was never
//     made or never answered as it should be, a fault that never struck.
//
// # The machine's own lateness
//
// A machine that does other work may stop everybody for seconds, and a disk may do so
// to everybody who syncs. What the controls of [rig.HostStalls]
// note beside the load is taken off the length of a pause of writes. A node that hangs makes
// neither of them late, so a real stall is not excused. What was excused is reported.
//
// # Time
//
// The load lasts as long as TXMGR_SOAK_TIME or -soak.time says, three minutes if neither
// does; a stall ends it at once. -soak.logs names a directory for what the nodes say.
package soak
