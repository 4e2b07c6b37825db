// Package cluster contains the tests of a real cluster: three server processes in three network
// namespaces, a real PostgreSQL and a real MariaDB, and every fault that can be injected into them.
// It contains only tests. They need root on Linux, for namespaces and mounts, and the programs that
// "make deps" installs; a missing program is an error that names it.
//
// # What runs
//
// Three `txmgr server` processes, built once with the failpoints of internal/failpoint.
// Each has a network namespace of its own, connected to the others and to the tests by a bridge;
// every listener is on those addresses or on loopback. Transfer clients, which are goroutines of
// the tests, move money between the databases with the SDK through a client that knows all three
// addresses; other goroutines begin transactions and abandon them to their deadlines. The nodes
// reach the databases through proxies that can close connections or hang.
//
// # Faults
//
//   - kill -9 of the leader, of a follower, of two, of all, and at every step of the protocol;
//   - SIGSTOP for longer than an election;
//   - the network cut off, cut one way, cut between two, slow, lossy (packets pass a
//     queue of the kernel that a second process of this program empties late);
//   - the disk full (a small tmpfs), unable to sync (strace), without power (ext4 on a
//     loop device that is shut down under the process), with flipped bits;
//   - few file descriptors (prlimit), databases killed, connections to them closed or hung;
//   - members removed, replaced, restarted one by one, restored from a backup.
//
// # What has to hold
//
//  1. The sum of the money over both databases is unchanged, each account has the balance of its
//     journal, and each transfer is there completely or not at all.
//  2. What was acknowledged stays so, at every node, and a read that is not allowed to be stale
//     never contradicts it.
//  3. No transaction is rolled back by its timeout before that much time has passed on the
//     monotonic clock of its client, counted from before its begin.
//  4. After the last fault every transaction ends, and no branch of this cluster is prepared in
//     either database, within a bound.
//  5. Every fault was injected, and there was enough load; otherwise the test fails.
//
// # Time
//
// The chaos test lasts as long as TXMGR_CLUSTER_TIME says, 75 seconds by default, and
// TXMGR_CLUSTER_KILLS is the number of leaders that [TestLeaderKills] kills. TXMGR_CLUSTER_LOGS
// names a directory for the output of the nodes.
package cluster
