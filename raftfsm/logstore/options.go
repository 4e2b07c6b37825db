package logstore

import (
	"time"

	"github.com/hashicorp/raft"
)

// Limits of what one call may store, so that a damaged or hostile length is refused before memory
// is allocated for it.
const (
	// MaxEntryBytes is the largest Data plus Extensions of one log entry.
	MaxEntryBytes = 32 << 20

	// MaxKeyBytes is the longest key of the stable store.
	MaxKeyBytes = 512

	// MaxKeys is how many keys the stable store can hold.
	MaxKeys = 64

	// MaxValueBytes is the longest value of the stable store.
	MaxValueBytes = 64 << 10
)

// Options configures a [Store]. The zero value is valid.
type Options struct {
	// LockTimeout is how long Open waits for another process to release the file. Defaults to one
	// second; a process that was killed keeps its lock until the kernel has cleaned it up.
	LockTimeout time.Duration

	// OnFailure is called exactly once, with the first failure of the store, by the call that met it and before
	// that call returns. The store holds no lock then. The owner is expected to end the process: raft itself
	// would go on as a follower that refuses everything, or panic. Defaults to nothing.
	OnFailure func(error)

	// Snapshots is the node's snapshot store. With it, GetLog of the last index of an installed snapshot gives
	// index and term of that snapshot, in a raft.Log of type 255, when the entry after it is stored. This keeps
	// raft v1.8.0 from refusing a follower for ever (and sending it the same snapshot for ever) when the answer
	// to its first append after a snapshot is lost. Defaults to nil: raft.ErrLogNotFound.
	Snapshots raft.SnapshotStore

	// SegmentBytes is the size of a file of entries, from the fourth on; see package wal. Defaults to 16 MiB.
	SegmentBytes int64
}

func (o Options) withDefaults() Options {
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	return o
}
