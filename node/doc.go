// Package node is one coordinator: the replicated log, the state machine that it
// drives, the timeout thread, recovery, and the calls of [txn.Manager], wired
// together. [Open] gives the embedded coordinator; package server puts one on the
// network.
//
// # The way of a command
//
// A call encodes its command into the batch that is being filled and waits. The
// batcher seals a batch with the tick of that moment and hands it to raft as one
// log entry, at most two at a time; what arrives meanwhile goes into the next
// one. So a lone caller never waits for a timer, and a thousand callers share one
// write to disk. When raft has committed the entry, the state machine applies it
// and each caller gets its own result.
//
// # Invariants
//
//  1. Nothing is decided here. The node proposes; txn/machine decides.
//
//  2. A call that returned without error is durable.
//
//  3. A tick is stamped on an entry only after it has begun on the leader's
//     monotonic clock; see clock.
//
//  4. On the first I/O error of the log [Config.OnFailure] is called, which ends
//     the process unless the owner says otherwise; nothing is acknowledged after.
//
//  5. Only a leader that has applied everything before its term serves calls, and
//     writes entries, and in that term alone.
//
//  6. A commit that is answered without error is decided: while the coordinator
//     still collects votes, the call waits for the decision, and holds up nobody.
//
//  7. A person's word is taken only where no participant can be asked, or none
//     knows: what is prepared, or proved, is not for a person to say.
//
//  8. At a participant with a quota never more branches are unfinished than that,
//     counted by the log and by what is on its way into it.
//
//  9. A node belongs to one cluster for ever: it takes its first entry from those with
//     whom it has consented to found one, or from the first that it asked or that came.
//
//  10. No voter is taken out when those that are left, and answer, are no majority.
//
//  11. A client's session does not expire before its TTL is over, counted from the last
//     sign of life that was answered, and not later than an eighth of that and one commit.
//     A failover makes it later, and never earlier.
//
// # People
//
// [Node.InDoubts] lists what may need a person, [Node.Explain] tells all that the log,
// recovery and the participants know about one transaction, and what could be done;
// [Node.Resolve], [Node.Retry] and [Node.Forget] do it, and [Node.Audit] shows who
// did. [Node.Doctor] looks for what is known to go wrong, before it does.
//
// # Waiting
//
// Whoever waits for a transaction, in [Node.Wait] or in a commit whose votes are missing, is
// parked in a purgatory under its id. An applied entry only notes what has changed; one
// goroutine then tries those whom it concerns, or everybody when it is the node that has
// changed. [Node.CommitAsync] waits without a goroutine.
//
// # Concurrency
//
// A [Node] is safe for concurrent use. Close waits for its goroutines, and ends every wait.
package node
