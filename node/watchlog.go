package node

import (
	"slices"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
)

// watchedLog tells of the entries that raft appends, on a leader and on a follower alike, before they are stored.
type watchedLog struct {
	raft.LogStore
	appending func([]*raft.Log)
}

// StoreLog implements [raft.LogStore].
func (w watchedLog) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements [raft.LogStore].
func (w watchedLog) StoreLogs(logs []*raft.Log) error {
	w.appending(logs)
	return w.LogStore.StoreLogs(logs)
}

// appending is told of entries that are about to be stored.
func (n *Node) appending(logs []*raft.Log) {
	n.measured.add(logs)
	for _, l := range slices.Backward(logs) {
		if l.Type == raft.LogCommand {
			n.clock.arrive(raftfsm.Position{Index: l.Index, Term: l.Term})
			return
		}
	}
}
