package node

import (
	"slices"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
)

// Snapshot makes the state durable in one file and shortens the log. The coordinator continues
// meanwhile.
func (n *Node) Snapshot() error { return n.snapshots.Snapshot() }

// onAppend is called with entries that are about to be stored.
func (n *Node) onAppend(logs []*raft.Log) {
	n.snapshots.Count(logs)
	for _, l := range slices.Backward(logs) {
		if l.Type == raft.LogCommand {
			n.clock.RecordArrival(raftfsm.Position{Index: l.Index, Term: l.Term})
			return
		}
	}
}
