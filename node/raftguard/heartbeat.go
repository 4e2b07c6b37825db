package raftguard

import "github.com/hashicorp/raft"

// The defect: raft handles heartbeats concurrently with its main loop, on the same state (docs/decisions/0021).

// SetHeartbeatHandler implements [raft.Transport]: heartbeats are handled like all requests. With
// raft's handler, a candidate that wins its election while the handler adopts the term of another
// leader, and writes that to the disk, leads in a term in which it was not elected.
func (w *guardedTransport) SetHeartbeatHandler(func(raft.RPC)) {}
