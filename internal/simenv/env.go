// Package simenv lets the simulation put a node on ground of its own: a network, a disk
// and a wall clock that it can disturb. It is here, inside the module, because a
// coordinator on any other ground would not keep its promises.
package simenv

import (
	"time"

	"github.com/hashicorp/raft"
)

// Env replaces the ground of one node. Fields are used by the one node that is given
// it, for one life of it: whoever restarts the node passes the same stores again.
type Env struct {
	// ID names the node. Required.
	ID raft.ServerID
	// Transport carries raft's messages. Required.
	Transport raft.Transport
	// Log is the log and what raft has to remember besides. Required.
	Log Log
	// Snapshots keeps snapshots. Required.
	Snapshots raft.SnapshotStore
	// Servers form the cluster when the log is empty; none: the node waits until it
	// is added.
	Servers []raft.Server
	// TuneRaft changes raft's settings before the start. Nil: as they are.
	TuneRaft func(*raft.Config)
	// Wall is the wall clock. Nil: time.Now.
	Wall func() time.Time
	// Monotonic is the clock that counts ticks, which may stand still. Nil: time.Now.
	Monotonic func() time.Time
	// BlockWhilePaused returns when the node's process is not halted: a goroutine that calls it stands still as all of a halted process
	// does. Nil: it is never halted.
	BlockWhilePaused func()
}

// Log is a log in memory.
type Log interface {
	raft.LogStore
	raft.StableStore
}

// FailureNotifier is a [Log] that tells of its first failure, as the real one does. The node says
// whom to tell before it uses the log.
type FailureNotifier interface {
	OnFailure(tell func(error))
}
