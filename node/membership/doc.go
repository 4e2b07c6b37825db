// Package membership decides who is in the cluster, as far as one node can: it bootstraps a cluster
// with the consent of the other nodes or joins one, adds and removes nodes, promotes learners that
// have caught up, follows nodes to other addresses, and transfers leadership. raft's configuration
// says who votes; the log keeps the names of the members and the ids that were removed.
//
// Other nodes can connect before raft runs: [New], then [Cluster.Listen], whose transport raft
// needs, then [Cluster.Start], then [Cluster.Run]. A single node, and one of the simulation, have no
// port for other nodes: they call New and Start only.
//
// # Invariants
//
//  1. A node belongs to one cluster for ever: consent.go.
//
//  2. A voter is removed only if a majority of the remaining voters answers: remove.go.
//
//  3. An id that was removed is never used again: admission.go refuses its connections, join.go a
//     join.
//
//  4. Changes of raft's configuration are made one at a time.
package membership
