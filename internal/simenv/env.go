// Package simenv lets the simulation replace the environment of a node: a network, a disk and a
// wall clock that it can disturb. Set the SimEnv field of node.Config to an [Env]. It is inside the
// module, because a coordinator in any other environment would not keep its promises.
package simenv

import (
	"time"

	"github.com/hashicorp/raft"
)

// Env replaces the environment of one node. Its fields are used by that node alone, until it
// stops: to restart the node, pass the same stores again.
type Env struct {
	// ID names the node. Required.
	ID raft.ServerID
	// Transport carries raft's messages. Required.
	Transport raft.Transport
	// Log is the log with raft's stable store. Required.
	Log Log
	// Snapshots stores snapshots. Required.
	Snapshots raft.SnapshotStore
	// Servers form the cluster when the log is empty; none: the node waits until it
	// is added.
	Servers []raft.Server
	// TuneRaft changes raft's settings before the start. Nil: they stay unchanged.
	TuneRaft func(*raft.Config)
	// Wall is the wall clock. Nil: time.Now.
	Wall func() time.Time
	// Monotonic is the clock that counts ticks, which may stand still. Nil: time.Now.
	Monotonic func() time.Time
	// BlockWhilePaused returns when the node's process is not suspended: a goroutine that calls it
	// blocks as long as the whole suspended process would. Nil: the process is never suspended.
	BlockWhilePaused func()
}

// Log is a log and stable store in memory.
type Log interface {
	raft.LogStore
	raft.StableStore
}

// FailureNotifier is a [Log] that reports its first failure, as the real one does. The node sets
// the function to call before it uses the log.
type FailureNotifier interface {
	OnFailure(tell func(error))
}
