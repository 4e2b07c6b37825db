// Package cluster holds the real bed of the cluster: three server processes in three
// network namespaces, a real PostgreSQL and a real MariaDB, and everything that may
// happen to them. It has tests only. They need root on Linux, as the namespaces and
// mounts do, and the programs that "make deps" installs; what is missing is an error
// that says so.
//
// # What runs
//
// Three `txmgr server` processes, built once with the failpoints of internal/failpoint.
// Each has a network namespace of its own, joined to the others and to the tests by a
// bridge; nothing listens but on those addresses and on loopback. Tellers, which are
// goroutines of the tests, move money between the databases with the SDK through a
// client that knows all three addresses; others begin transactions and leave them to
// their deadlines. The nodes reach the databases through relays that can lose
// connections or hang.
//
// # What is done to them
//
//   - kill -9 of the leader, of a follower, of two, of all, and at every step of the protocol;
//   - SIGSTOP for longer than an election;
//   - the network cut off, cut one way, cut between two, slow, lossy (packets pass a
//     queue of the kernel that a second process of this program empties late);
//   - the disk full (a small tmpfs), unable to sync (strace), without power (ext4 on a
//     loop device that is shut down under the process), with flipped bits;
//   - few file descriptors (prlimit), databases killed, lines to them cut or hung;
//   - members removed, replaced, restarted one by one, restored from a backup.
//
// # What has to hold
//
//  1. The sum of the money over both databases is what it was, account by account what
//     the journals say, and each transfer is there as a whole or not at all.
//  2. What was acknowledged is so for ever, at every node, and a read that is not
//     allowed to be stale never denies it.
//  3. No transaction is rolled back by its timeout before that much time has passed on
//     the monotonic clock of whoever began it, counted from before its begin.
//  4. After the last fault every transaction ends, and nothing of this cluster's is
//     prepared in either database, within a bound.
//  5. Every fault has struck, and there was enough traffic; otherwise the test fails.
//
// # Time
//
// The chaos lasts as long as TXMGR_CLUSTER_TIME says, 75 seconds if it does not, and
// TXMGR_CLUSTER_KILLS says how many leaders [TestLeaderKills] kills. TXMGR_CLUSTER_LOGS
// names a directory for what the nodes say.
package cluster
