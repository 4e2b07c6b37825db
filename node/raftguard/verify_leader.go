package raftguard

import "github.com/hashicorp/raft"

// The defect: raft's VerifyLeader counts acknowledgements of requests that were sent before the question
// (docs/decisions/0020). Package readindex asks so that it does not matter; it needs to know of every
// acknowledgement.

// AppendEntries implements [raft.Transport]. A heartbeat is an AppendEntries request, too.
func (w *guardedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	round := w.acks.CurrentRound()
	err := w.Transport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term == args.Term {
		w.acks.Record(id, args.Term, round)
	}
	return err
}
