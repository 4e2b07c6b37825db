package raftfsm

import "errors"

// What can be wrong with stored bytes. A node that meets one of the first four must stop: an entry
// or a snapshot is never skipped.
var (
	// ErrCorrupt: the bytes are not what was written. Replace the node's data by that of a healthy one.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnknownVersion: the bytes were written by a newer release. Upgrade this node.
	ErrUnknownVersion = errors.New("unknown version")
	// ErrUnknownKind: a command, or a block of a snapshot, is of a kind of a newer release. Upgrade
	// this node.
	ErrUnknownKind = errors.New("unknown kind")
	// ErrOtherGroup: the snapshot is of a raft group that this node does not serve. It was given to
	// the wrong node, or was written by a newer release that serves several.
	ErrOtherGroup = errors.New("another raft group")
	// ErrTooLarge: the entry exceeds [MaxEntry] and must not be proposed. Nothing was written.
	ErrTooLarge = errors.New("too large")
)
