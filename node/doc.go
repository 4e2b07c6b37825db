// Package node is one coordinator of a cluster: the replicated log, the state machine that it
// drives, the timeout thread, recovery, and the calls of [txn.Manager]. Call [Open] to run a
// coordinator inside the application; package server puts one on the network.
//
//	n, err := node.Open(ctx, node.Config{
//		DataDir:      "/var/lib/app/txmgr",
//		Participants: map[string]participant.Participant{"orders": orders},
//	})
//	if err != nil {
//		return err
//	}
//	defer n.Close()
//	return txn.Run(ctx, n, txn.Options{Name: "order"}, work)
//
// # The path of a command
//
// A call encodes its command into the batch that is being filled, and waits. The proposal queue
// seals a batch with the tick of that moment and hands it to raft as one log entry, at most two
// at a time; commands that arrive meanwhile go into the next batch. So a single caller never
// waits for a timer, and a thousand callers share one write to disk. When raft has committed
// the entry, the state machine applies it, and each caller gets its own result.
//
// A begin, from top to bottom:
//
//	server/transactions.go     the HTTP request becomes txn.Options
//	node/transactions.go       validated; this node leads
//	node/deadline.go           the timeout becomes an expiry tick
//	node/participants/quota.go admitted: a place within the quota of each participant
//	node/propose.go            proposed, in this term only
//	node/proposal              packed with the commands of other callers, stamped with the tick, given to raft
//	raftfsm/fsm.go             committed: the entry is decoded and applied
//	txn/machine/begin.go       the state machine begins the transaction
//	node/node.go: onApply      effects on this node: waiters, watchers, recovery, the timeout thread
//	node/proposal              the caller gets its answer
//
// # Invariants
//
//  1. The node decides nothing: it proposes, and txn/machine decides.
//
//  2. A call that returned without error is durable.
//
//  3. A tick is stamped on an entry only after it has begun on the leader's monotonic clock;
//     see package ticks.
//
//  4. On the first I/O error of the log the node calls [Config.OnFailure], which by default ends
//     the process; nothing is acknowledged after it.
//
//  5. Only a leader that has applied everything before its term serves calls and writes
//     entries, and only in that term.
//
//  6. A commit that is answered without error is decided. While the coordinator still collects
//     votes, the call waits for the decision and blocks no other call.
//
//  7. [admin.InDoubts.Resolve] is accepted only if no participant can be asked, or none knows how the
//     branch ended: a branch that is prepared, or whose end is proved, cannot be resolved by
//     an operator.
//
//  8. A participant with a quota never has more unfinished branches than the quota, counting
//     those in the log and those in commands on their way into it.
//
//  9. A node belongs to one cluster for ever: it takes its first entry from the nodes with which
//     it has consented to bootstrap one, or from the first cluster that it asked or that
//     contacted it; see package membership.
//
//  10. A voter is removed only if a majority of the remaining voters answers.
//
//  11. A client session expires no earlier than its TTL after the last keep-alive that was
//     answered, and at most an eighth of the TTL and one commit later. A failover delays the
//     expiry and never advances it.
//
// # Operators
//
// [Node.Admin] has the calls of operators. [admin.InDoubts.InDoubts] lists the transactions that may
// need one. [admin.InDoubts.Explain] returns everything that the log, recovery and the participants
// know about a transaction, and the possible actions; Resolve, Retry and Forget carry them out, and
// Audit lists who did. [admin.Cluster.Doctor] checks for known problems before they cause a failure.
//
// # Waiting
//
// A call that waits for a transaction, in [Node.Wait] or in a commit whose votes are missing, is
// parked in a purgatory under the transaction's id. An applied entry only records what has
// changed; one goroutine then checks the waiters of the changed transactions, or all waiters if
// the node's own state has changed. A commit of [Node.Async] waits without a goroutine.
//
// # Concurrency
//
// A [Node] is safe for concurrent use. Close waits for its goroutines and ends every wait.
package node
