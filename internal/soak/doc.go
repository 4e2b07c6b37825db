// Package soak contains the soak test: all calls of the API, concurrently, on a real cluster, while
// its nodes are killed, suspended and restarted; then it checks what is left. It contains only
// tests. It needs no privileges: the nodes listen on loopback.
//
// # What runs
//
// Three `txmgr server` processes with TLS and tokens, a private PostgreSQL ("bank"), a private
// MariaDB ("savings"), and a web service ("vault") in the test's own process. Applications move
// money between the three with the SDK. Other clients make every call of [client.Client]: reads,
// lists, watches, waits, sessions, votes, backups, and the calls of operators. Most have little
// time: their contexts end at random, while entries are applied. Clients are connected to one node
// or to all of them, by pipe or with a request for each call. Many transactions and sessions are
// abandoned.
//
// Meanwhile the leader is killed, followers are suspended, all nodes are restarted one after the
// other, leadership is transferred; and the web service answers 500, or hangs.
//
// # What fails it
//
//  1. A stall: for 5 s no node has acknowledged a write, though each of them is sent writes all the
//     time. While a fault has made an election necessary, the election may take 3 s more. Time in
//     which the machine itself stalled does not count; see below.
//  2. An answer that the table of calls does not allow: see [mayAnswer] and
//     [callError.isCallerTimeout]. "Unavailable" and "in doubt" need a reason: a fault or an
//     election at that moment, or the end of the caller's own time.
//  3. A change of the sum of the money, half a transfer, an acknowledged one that is missing, or
//     one that is there and was answered with [txn.ErrRolledBack].
//  4. Growth: goroutines, file descriptors, memory, kept outcomes, or the data directory, compared
//     between two moments without load, one before and one after it; see [resourceUse] for the
//     bounds.
//  5. A transaction that is active, completing, prepared or in doubt after the load; nodes that do
//     not agree; a process that ended by itself.
//  6. Too little load: fewer transfers or calls than any machine does, a call that was never made
//     or never succeeded, a fault that was never injected.
//
// # Stalls of the machine
//
// A machine with other load may stall every process for seconds, and a disk every process that
// syncs. Stalls that the controls of [rig.HostStalls] record beside the load are subtracted from
// the length of a pause of writes. A node that hangs delays neither control, so a real stall is not
// excused. Excused time is reported.
//
// # Time
//
// The load lasts as long as TXMGR_SOAK_TIME or -soak.time says, three minutes by default; a stall
// ends it at once. -soak.logs names a directory for the output of the nodes.
package soak
