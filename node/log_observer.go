package node

import (
	"slices"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
)

// onAppend is called with entries that are about to be stored.
func (n *Node) onAppend(logs []*raft.Log) {
	n.logMeter.add(logs)
	for _, l := range slices.Backward(logs) {
		if l.Type == raft.LogCommand {
			n.clock.RecordArrival(raftfsm.Position{Index: l.Index, Term: l.Term})
			return
		}
	}
}
