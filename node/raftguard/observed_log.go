package raftguard

import "github.com/hashicorp/raft"

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
