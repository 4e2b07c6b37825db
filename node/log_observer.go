package node

import (
	"slices"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
)

// observedLog calls onAppend with the entries that raft appends, on leaders and followers, before
// they are stored.
type observedLog struct {
	raft.LogStore
	onAppend func([]*raft.Log)
}

// StoreLog implements [raft.LogStore].
func (w observedLog) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements [raft.LogStore].
func (w observedLog) StoreLogs(logs []*raft.Log) error {
	w.onAppend(logs)
	return w.LogStore.StoreLogs(logs)
}

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
