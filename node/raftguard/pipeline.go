package raftguard

import "github.com/hashicorp/raft"

// The defect: raft's pipeline of AppendEntries can stop for good when the leadership is transferred
// (docs/decisions/0018).

// AppendEntriesPipeline implements [raft.Transport]: pipelining is disabled, so raft sends one
// append after the other. Packing commands into entries serves the purpose of a pipeline.
func (w *guardedTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}
