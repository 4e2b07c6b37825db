package raftguard

import (
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/readindex"
)

// guardedTransport stands between raft and the network. Its methods are in the files of the defects
// that they work around.
type guardedTransport struct {
	raft.Transport
	acks     *readindex.AckTracker
	installs installs
}

// Transport wraps a transport, and keeps its optional interface for pre-votes. It records in acks which
// requests were acknowledged. snapshotLoops receives each node in a snapshot loop; what finds the channel
// full is dropped.
func Transport(t raft.Transport, snapshotLoops chan<- raft.ServerID, acks *readindex.AckTracker) raft.Transport {
	w := &guardedTransport{Transport: t, acks: acks, installs: installs{loops: snapshotLoops, sent: make(map[raft.ServerID]sentSnapshot)}}
	if p, ok := t.(raft.WithPreVote); ok {
		return &guardedPreVote{w, p}
	}
	return w
}

// guardedPreVote is a guardedTransport for a transport that supports pre-votes.
type guardedPreVote struct {
	*guardedTransport
	raft.WithPreVote
}

// Close implements [raft.WithClose].
func (w *guardedTransport) Close() error {
	if c, ok := w.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}
