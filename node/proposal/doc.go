// Package proposal is the group commit of the log: it packs the commands of concurrent callers into
// entries, stamps each entry with the tick, and answers every caller when its entry is applied.
//
//	q := proposal.New(raft, clock, time.Now)
//	q.SetTerm(term)                   // this node leads, and has applied everything before
//	result, err := q.Propose(ctx, machine.Commit{ID: id})
//
// queue.go is what callers use; async.go is for callers that spend no goroutine on the wait;
// batch.go fills the batches; sender.go proposes them and waits.
package proposal
